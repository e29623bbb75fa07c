#include "runtime/settings/nccl_filters.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <vector>

#include "base/settings/log.h"
#include "base/settings/name_list.h"
#include "base/settings/nearest_word.h"

namespace sccl::runtime {
namespace {

using Words = std::span<const std::string_view>;

// NCCL's own spellings, up to 2.32. NCCL knows no names but these.
constexpr std::array<std::string_view, 7> kAlgorithms{"Tree",     "Ring", "CollnetDirect", "CollnetChain", "NVLS",
                                                      "NVLSTree", "PAT"};
constexpr std::array<std::string_view, 3> kProtocols{"LL", "LL128", "Simple"};
// In NCCL both lists may begin with a function. Here the functions of other collectives are accepted, too.
constexpr std::array<std::string_view, 8> kFunctions{"broadcast", "reduce",   "allgather", "reducescatter",
                                                     "allreduce", "alltoall", "gather",    "scatter"};

bool holds(Words words, std::string_view text) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return word.size() == text.size() && std::equal(word.begin(), word.end(), text.begin(), same);
  });
}

void warn_unless_known(const char* variable, std::string_view text, std::string_view name, Words words,
                       const char* what) {
  if (name.empty() || holds(words, name)) return;
  std::string known;
  for (const std::string_view word : words) known += (known.empty() ? "" : ", ") + std::string(word);
  log::warn("{}={}: {} is no {} of NCCL; the nearest one is {}, and all are {}; it selects nothing", variable, text,
            name, what, nearest_word(name, words), known);
}

// One line for each name in the list that NCCL does not know.
void check_names(const char* variable, std::string_view text, Words words, const char* what) {
  for (const std::string& part : lower_items(text, ';')) {
    const std::size_t colon = part.find(':');
    if (colon != std::string::npos) warn_unless_known(variable, text, part.substr(0, colon), kFunctions, "function");
    std::string_view list = part;
    if (colon != std::string::npos) list.remove_prefix(colon + 1);
    take_mark(list, '^');
    for (const std::string& name : lower_items(list, ',')) warn_unless_known(variable, text, name, words, what);
  }
}

std::string family(std::string_view list) {
  const bool ring = leaves(list, "ring");
  const bool tree = leaves(list, "tree");
  if (ring == tree) return "";
  return ring ? "ring" : "trees";
}

}  // namespace

std::string nccl_algorithms(std::string_view text) {
  check_names("NCCL_ALGO", text, kAlgorithms, "algorithm");
  std::string result;
  for (const std::string& part : lower_items(text, ';')) {
    const std::size_t colon = part.find(':');
    const std::string list = colon == std::string::npos ? part : part.substr(colon + 1);
    const std::string found = list.empty() ? "" : family(list);
    if (found.empty()) continue;
    if (colon != std::string::npos && !collective_from_name(part.substr(0, colon))) continue;
    result += (result.empty() ? "" : ";") + (colon == std::string::npos ? "" : part.substr(0, colon + 1)) + found;
  }
  if (!text.empty())
    log::info(log::Subsystem::env, "NCCL_ALGO={}: {}", text,
              result.empty() ? "leaves the choice open" : "as SCCL_ALGO=" + result);
  return result;
}

NcclProtocols nccl_protocols(std::string_view text) {
  NcclProtocols found;
  if (text.empty()) return found;
  check_names("NCCL_PROTO", text, kProtocols, "protocol");
  for (const std::string& part : lower_items(text, ';')) {
    const std::size_t colon = part.find(':');
    const std::string list = colon == std::string::npos ? part : part.substr(colon + 1);
    if (list.find_first_not_of("^, ") == std::string::npos) continue;
    const bool lines = leaves(list, "ll128");
    const bool ll = leaves(list, "ll");
    const bool simple = leaves(list, "simple");
    if (!lines && (ll || simple)) found.lines = false;
    if (colon != std::string::npos) continue;
    if (lines && !simple)
      found.choice = ProtocolChoice::ll128;
    else if (ll != simple)
      found.choice = ll ? ProtocolChoice::ll : ProtocolChoice::simple;
  }
  log::info(log::Subsystem::env, "NCCL_PROTO={}: {}", text,
            found.choice == ProtocolChoice::ll       ? "as SCCL_PROTO=ll"
            : found.choice == ProtocolChoice::ll128  ? "as SCCL_PROTO=ll128"
            : found.choice == ProtocolChoice::simple ? "as SCCL_PROTO=simple"
            : found.lines                            ? "leaves the choice open"
                                                     : "leaves the choice open, without ll128");
  return found;
}

}  // namespace sccl::runtime
