#include "runtime/vendor/vendor_group.h"

#include <utility>

namespace sccl::runtime {

void VendorGroup::close() {
  const VendorLibrary* const library = std::exchange(library_, nullptr);
  if (library == nullptr) return;
  const VendorAnswer answer = answer_of(library->functions(), nullptr, library->functions().group_end());
  if (answer.code == ncclSuccess) return;
  fail(error_code_of(answer.code),
       "a group of calls failed in {}: {}: set SCCL_VENDOR=never to do without that library", library->text(),
       answer.text);
}

}  // namespace sccl::runtime
