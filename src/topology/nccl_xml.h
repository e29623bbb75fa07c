// The text of NCCL's topology files: read leniently, written exactly as NCCL's own parser wants it.
#pragma once

#include <string>
#include <string_view>

#include "topology/system.h"

namespace sccl::topology {

// The <system> element of a file. Prolog, entities, text, tabs and elements that are not known are no errors, as they
// are for NCCL. Throws invalid_argument naming line and column, or what bound the file exceeds.
Element system_from_xml(std::string_view text);

// Two spaces a level, attributes in their order, a leaf closed in its own tag. What NCCL's parser cannot hold (quotes
// of both kinds, more than 254 characters) is left out of a value.
std::string system_to_xml(const Element& system);

}  // namespace sccl::topology
