// The ranks of a group tell one another where they are, over their communicator. Where they are on several hosts their
// messages get a door.
#pragma once

#include "group.h"

namespace sccl_torch {

// All ranks call it, before any message. `secret` is known to them only. Throws Failure at all ranks alike.
void tell_places(Group& group, const Secret& secret, Milliseconds timeout);

}  // namespace sccl_torch
