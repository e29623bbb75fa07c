// Lowering: from routes of chunks to lanes of operations.
#pragma once

#include <optional>

#include "schedule/program.h"

namespace sccl::schedule {

enum class Forwarding { on, off };

// Store-and-forward through the slots of connections; serves every verified schedule. With forwarding on, a value that
// is sent on in the step after its arrival is forwarded by the operation that receives it, and stored only where it is
// needed again; such a program may need more than one slot a connection (check_program tells). With forwarding off
// one slot suffices for every schedule. Operands of a reduction stand in ascending order of the ranks they come from,
// on every rank alike, so that ranks which compute the same sum get the same bits.
Program lower(const Schedule& schedule, Forwarding forwarding);

// For ranks that can reach one another's buffers: chunks whose in-tree and out-tree are stars become one operation
// that reads all contributions and writes all results in place, every byte once. Nothing when some chunk's route is
// not of that form.
std::optional<Program> lower_direct(const Schedule& schedule);

}  // namespace sccl::schedule
