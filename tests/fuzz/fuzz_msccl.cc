// Whatever the bytes: the XML reader returns an algorithm or throws the library's error; an algorithm that is proved
// right becomes a verified schedule, and what is written is read back the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "schedule/msccl/msccl_import.h"
#include "schedule/proof/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sccl::schedule;
  try {
    const MscclAlgo algo = msccl_from_xml({reinterpret_cast<const char*>(data), size});
    const std::string text = to_xml(algo);
    if (to_xml(msccl_from_xml(text)) != text) std::abort();
    verify(schedule_from_msccl(algo));
  } catch (const sccl::Error& error) {
    if (error.code() == sccl::ErrorCode::internal_error) std::abort();
  }
  return 0;
}
