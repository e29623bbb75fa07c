// Whether an order keeps what each rank does with a chunk (compose/proof/verify.h, 11).
#pragma once

#include <string>

#include "compose/form/composite.h"

namespace sccl::compose {

// Empty if it does, or there is none; else the fault. Takes time linear in the moves of all ranks; where hosts do
// alike, in those of the hosts that stand for all. All else of the composite must have been proved.
std::string fault_of_order(const Composite& composite);

}  // namespace sccl::compose
