// Text that others wrote (files, other processes), for messages and the log: terminals interpret control characters.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace sccl {

// Control characters become "\x1b" and the like. C1 controls are two bytes in UTF-8: C2 and 80 to 9F.
inline std::string printable(std::string_view text) {
  std::string shown;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool c1 = byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (byte >= 0x20 && byte != 0x7f && !c1)
      shown += text[i];
    else
      shown += fmt::format("\\x{:02x}", c1 ? static_cast<unsigned char>(text[++i]) : byte);
  }
  return shown;
}

}  // namespace sccl
