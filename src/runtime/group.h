// Thread-local groups: what is submitted between start and end runs at the outermost end (contract 3.6).
#pragma once

#include <memory>

#include "base/error.h"
#include "runtime/requests.h"

namespace sccl::runtime {

class Communicator;

void group_start();

// At the outermost end: connects the communicators submitted for init (each in a thread of its own), then runs all
// queued work of this thread. Throws the group's first error after discarding what was queued; invalid_usage when no
// group is open. The group is closed in every case.
void group_end();

bool in_group();

// Marks this thread's group as failed: the outermost end throws `error` and runs nothing. No effect outside a group.
void group_fail(const Error& error);

// Outside a group these act at once; inside they queue. Arguments have been checked by the caller for NULL
// communicators and enum ranges; rank, root and peer ranges are checked here.
void submit_init(const std::shared_ptr<Communicator>& communicator);
void submit(const std::shared_ptr<Communicator>& communicator, const CollectiveRequest& request);
void submit(const std::shared_ptr<Communicator>& communicator, const PointToPointRequest& request);

}  // namespace sccl::runtime
