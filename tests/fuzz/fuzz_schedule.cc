// Whatever the bytes: the JSON reader of schedules returns a schedule or throws the library's error. What it returns
// can be verified; what is right can be costed and simulated.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "schedule/json.h"
#include "schedule/msccl/msccl_export.h"
#include "schedule/proof/verify.h"
#include "schedule/simulation/cost.h"
#include "schedule/simulation/simulate.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sccl::schedule;
  try {
    const Schedule schedule = schedule_from_json_text({reinterpret_cast<const char*>(data), size});
    verify(schedule);
    if (to_json(schedule_from_json_text(to_json(schedule).dump())) != to_json(schedule)) std::abort();
    linear_cost(schedule);
    simulate(schedule, {.bytes = 1e6, .slice_bytes = 1e5, .slots = 2, .reduce_gbytes_per_s = 10});
    msccl_from_schedule(schedule);
  } catch (const sccl::Error& error) {
    // A right schedule that cannot be simulated to its end is a fault of the simulator.
    if (error.code() == sccl::ErrorCode::internal_error) std::abort();
  }
  return 0;
}
