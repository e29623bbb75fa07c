// The vector instruction sets that the data mover is compiled for, and those that this processor has.
#pragma once

#include <vector>

namespace sccl::kernels {

// Best first within an architecture.
enum class InstructionSet : int { avx512, avx2, sse4, neon, portable };
inline constexpr int kInstructionSetCount = 5;

const char* name(InstructionSet set);

// Compiled in and usable on this processor, best first; never empty.
std::vector<InstructionSet> available_instruction_sets();

// The best available set unless a test has chosen another.
InstructionSet current_instruction_set();
// For tests: `set` must be available. Takes effect for calls that start later, on every thread.
void use_instruction_set(InstructionSet set);

}  // namespace sccl::kernels
