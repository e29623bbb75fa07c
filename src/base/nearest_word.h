// The known word that a mistyped one was probably meant to be, for messages.
#pragma once

#include <span>
#include <string_view>

namespace sccl {

// The word with the fewest letters inserted, left out, exchanged or swapped with their neighbour; case does not count.
// The first of several. `words` must not be empty.
std::string_view nearest_word(std::string_view text, std::span<const std::string_view> words);

}  // namespace sccl
