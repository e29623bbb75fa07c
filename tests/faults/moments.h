// The moments at which faults strike: what all ranks are doing just then.
#pragma once

#include <vector>

#include "harness.h"

namespace faults_test {

Moment init_moment();
Moment small_calls();  // a cache line
Moment slot_calls();   // through shared slots
Moment large_calls();  // single copy, where the machine permits
Moment bulk_calls();   // round the ring, many slices
Moment eager_calls();
// Ranks come late by chance, so that the victim leads, comes last or has not come.
Moment late_calls(const char* form);
Moment led_calls();
Moment chained_calls();       // reduced by the ranks that are there, many slices
Moment grouped_calls();       // two collectives and an exchange between all pairs in one group
Moment splits();              // children made and destroyed
Moment finalizes();           // children finalized before they are destroyed
Moment non_blocking_calls();  // of non-blocking children, polled

// `elements` of float on every rank, `rounds` times.
Moment all_reduces(const char* name, std::size_t elements, int rounds);

}  // namespace faults_test
