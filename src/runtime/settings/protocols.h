// The names of protocols in SCCL_PROTO, in files and in log lines.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace sccl::runtime {

enum class ProtocolChoice : std::uint8_t { automatic, simple, ll, ll128, direct };

struct ProtocolWord {
  std::string_view text;
  ProtocolChoice value;
};
inline constexpr auto kProtocolWords = std::to_array<ProtocolWord>({{"auto", ProtocolChoice::automatic},
                                                                    {"simple", ProtocolChoice::simple},
                                                                    {"ll", ProtocolChoice::ll},
                                                                    {"ll128", ProtocolChoice::ll128},
                                                                    {"direct", ProtocolChoice::direct}});

constexpr std::string_view name_of(ProtocolChoice protocol) {
  for (const ProtocolWord& word : kProtocolWords)
    if (word.value == protocol) return word.text;
  return "";
}

// The protocol of messages that has this name; `simple` for every other name.
constexpr ProtocolChoice protocol_of(std::string_view name) {
  for (const ProtocolChoice protocol : {ProtocolChoice::ll, ProtocolChoice::ll128})
    if (name_of(protocol) == name) return protocol;
  return ProtocolChoice::simple;
}

}  // namespace sccl::runtime
