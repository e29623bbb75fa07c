// The text of NCCL's topology files. Reading is lenient; writing is exactly what NCCL's own parser accepts.
#pragma once

#include <string>
#include <string_view>

#include "topology/system/system.h"

namespace sccl::topology {

// The <system> element of a file. As in NCCL, a prolog, entities, text, tabs and unknown elements are no errors. Throws
// invalid_argument that names line and column, or the bound that the file exceeds.
Element system_from_xml(std::string_view text);

// Indents by two spaces; keeps the order of attributes; closes an element without children in its own tag. Removes from
// values what NCCL's parser cannot hold (quotes of both kinds, more than 254 characters).
std::string system_to_xml(const Element& system);

}  // namespace sccl::topology
