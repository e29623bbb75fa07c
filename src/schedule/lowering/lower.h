// Lowering: turns routes of chunks into lanes of operations.
#pragma once

#include <optional>

#include "schedule/program.h"

namespace sccl::schedule {

enum class Forwarding { on, off };

// Store-and-forward through the slots of connections; serves every verified schedule. With forwarding on, a value that
// is sent in the step after its arrival is forwarded by the operation that receives it, and is stored only if needed
// again. Such a program may need more than one slot per connection (check_program tells). With forwarding off, one slot
// suffices for every schedule. Operands of a reduction are in ascending order of their source ranks, on every rank, so
// ranks that compute the same sum get the same bits.
Program lower(const Schedule& schedule, Forwarding forwarding);

// For ranks that can access one another's buffers. A chunk whose in-tree and out-tree are stars becomes one operation,
// which reads all contributions and writes all results in place, every byte once. Nothing when some chunk's route has
// another form.
std::optional<Program> lower_direct(const Schedule& schedule);

}  // namespace sccl::schedule
