#include "runtime/vendor/library/vendor_communicator.h"

#include <utility>

#include "base/os/thread.h"
#include "runtime/vendor/library/vendor_use.h"

namespace sccl::runtime {
namespace {

// The library writes the place while this thread may look: one aligned word, which is null or whole. Pairs with join()
// of the shim where that library is a build of this one; others store it as they like.
ncclComm_t look_at(const ncclComm_t* place) { return __atomic_load_n(place, __ATOMIC_ACQUIRE); }

}  // namespace

VendorAnswer answer_of(const VendorFunctions& functions, ncclComm_t communicator, ncclResult_t code) {
  if (code == ncclSuccess) return {};
  const char* const text = functions.last_error(communicator);
  const char* const name = functions.error_string(code);
  return {code, fmt::format("{}{}{}", name == nullptr ? "an error without a name" : name,
                            text == nullptr || *text == '\0' ? "" : ": ", text == nullptr ? "" : text)};
}

ErrorCode error_code_of(ncclResult_t code) {
  const int value = static_cast<int>(code);
  const bool known =
      value >= static_cast<int>(ErrorCode::device_error) && value <= static_cast<int>(ErrorCode::remote_error);
  return known ? static_cast<ErrorCode>(value) : ErrorCode::internal_error;
}

void VendorCommunicator::use(std::shared_ptr<const VendorLibrary> library) {
  const std::lock_guard lock(mutex_);
  library_ = std::move(library);
}

VendorAnswer VendorCommunicator::init(int ranks, const ncclUniqueId& id, int rank) {
  std::optional<gpu::Current> current;
  if (device_) current.emplace(*device_);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  config.commName = kVendorCommunicatorName;
  const ncclResult_t code = library_->functions().init(&early_, ranks, id, rank, &config);
  const VendorAnswer answer = answer_of(library_->functions(), nullptr, code);
  if (answer.code != ncclSuccess) {
    ended_.store(true);
    return answer;
  }
  made_.store(early_);
  note_use(library_);
  if (aborted_.load()) abort();  // it came before there was anything to abort
  return answer;
}

// Not with the communicator's own text: another thread may abort it, and free it, as soon as the function has returned.
VendorAnswer VendorCommunicator::ask(const Function& function) noexcept {
  try {
    if (has_ended()) return {ncclInvalidUsage, "its communicator was ended"};
    std::optional<gpu::Current> current;
    if (device_) current.emplace(*device_);
    return answer_of(library_->functions(), nullptr, function(library_->functions(), made_.load()));
  } catch (const Error& error) {
    return {static_cast<ncclResult_t>(error.code()), error.what()};
  }
}

void VendorCommunicator::destroy() { library_->functions().destroy(made_.load()); }

VendorAnswer VendorCommunicator::later_error() const {
  const std::lock_guard lock(mutex_);
  if (has_ended()) return {};
  const VendorFunctions& functions = library_->functions();
  ncclResult_t found = ncclSuccess;
  const ncclResult_t asked = functions.async_error(made_.load(), &found);
  const ncclResult_t code = asked != ncclSuccess ? asked : found;
  return code == ncclInProgress ? VendorAnswer{} : answer_of(functions, made_.load(), code);
}

ncclComm_t VendorCommunicator::reached() const {
  ncclComm_t const made = made_.load();
  return made != nullptr ? made : look_at(&early_);
}

bool VendorCommunicator::take_end() { return reached() != nullptr && !ended_.exchange(true); }

void VendorCommunicator::abort() noexcept {
  aborted_.store(true);
  ncclComm_t const communicator = reached();
  if (communicator == nullptr || ended_.exchange(true)) return;
  try {
    start_thread([self = shared_from_this(), communicator] {
      std::unique_lock lock(self->mutex_);  // nobody asks for errors any more when it is open again
      const auto library = self->library_;
      lock.unlock();
      library->functions().abort(communicator);
    }).detach();
  } catch (const Error&) {
    // No thread can be had: the library's functions end with the process.
  }
}

}  // namespace sccl::runtime
