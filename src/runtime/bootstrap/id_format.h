// The content of the 128 bytes of a unique id.
#pragma once

#include <vector>

#include "base/siphash.h"
#include "runtime/bootstrap/sockets/address.h"
#include "runtime/bootstrap/unique_id.h"

namespace sccl::runtime {

struct IdContent {
  Secret secret;
  bool fixed = false;  // made from NCCL_COMM_ID: rank 0 opens the root
  std::vector<Address> addresses;
};

UniqueId encode(const IdContent& content);

// Throws invalid_argument when the bytes are not an id of this library.
IdContent decode(const UniqueId& id);

}  // namespace sccl::runtime
