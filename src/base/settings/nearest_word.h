// Finds the known word that a mistyped word was probably meant to be, for messages.
#pragma once

#include <span>
#include <string_view>

namespace sccl {

// The word that needs the fewest insertions, deletions, replacements and swaps of neighbours; case does not count. The
// first of several equals. `words` must not be empty.
std::string_view nearest_word(std::string_view text, std::span<const std::string_view> words);

}  // namespace sccl
