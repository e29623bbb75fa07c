// What tests tell the fake ROCm driver, and what it has seen.
#pragma once

extern "C" {
// Which memory hipExtMallocWithFlags gives: 1 fine-grained, 2 uncached, 3 both, 0 none.
void fake_hip_set_memory_kinds(int kinds);
// Kernels whose rings, slots or flags lay in memory that need not show them what others write (coarse-grained).
int fake_hip_coarse_messages();
// Allocations of messages by kind.
int fake_hip_uncached();
int fake_hip_fine_grained();
void fake_hip_reset();
}
