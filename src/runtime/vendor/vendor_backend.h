// The vendor's communicator behind one of ours: made when a call first wants it, by all ranks or by none, and ended
// with ours.
//
//   first call that wants it      on a thread beside the call                      afterwards
//   begin_agreement()             opens the library         all ranks tell         ready: the library is a candidate
//   waits until decided() ------> rank 0's unique id        all ranks tell ------> left_out: as if there were none
//                                 ncclCommInitRankConfig    all ranks tell         refused: such calls are errors
//
// Every function of the library that may hang runs on a VendorThread, and has a limit (SCCL_VENDOR_TIMEOUT_MS).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "runtime/call/requests.h"
#include "runtime/control/control_all_gather.h"
#include "runtime/membership/membership.h"
#include "runtime/vendor/library/vendor_communicator.h"
#include "runtime/vendor/library/vendor_library.h"
#include "runtime/vendor/vendor_thread.h"
#include "runtime/vendor/vendor_verdict.h"

namespace sccl::runtime {

// When a function that begins now is given up (SCCL_VENDOR_TIMEOUT_MS), and that limit as messages name it.
Deadline vendor_deadline();
std::string vendor_limit_text();

class VendorBackend {
 public:
  // Null where calls of this communicator never want the library, the same on all ranks; one line says why where
  // SCCL_ALGO names it. `membership` must outlive the backend.
  static std::unique_ptr<VendorBackend> of(const Membership& membership);
  ~VendorBackend();
  VendorBackend(const VendorBackend&) = delete;
  VendorBackend& operator=(const VendorBackend&) = delete;

  enum class State : std::uint8_t { untried, agreeing, ready, left_out, refused };
  State state() const { return state_.load(std::memory_order_acquire); }  // pairs with settle()
  // All ranks call it at the same call.
  void begin_agreement();
  // Throws what ended the agreement before it was reached: a peer's end, an abort.
  bool decided() const;
  // Why it is not used; "" else.
  const std::string& why_not() const { return why_not_; }

  // Requires State::ready. Whether the library has that collective for that type, on all ranks.
  bool serves(Collective collective, DataType type) const;
  const VendorLibrary& library() const { return *made_->library(); }
  VendorCommunicator& made() const { return *made_; }
  const Membership& membership() const { return membership_; }
  // A function that makes the call, and returns when the library's function does. It owns what it uses.
  std::function<VendorAnswer()> call(const CollectiveRequest& request) const;
  // Requires State::ready. Whether all ranks have the function.
  bool has(const char* function) const;
  // What ranks do beside calls: the library's function runs, with the limit of functions; `together`: when all ranks
  // have come. Throws the library's error; after one that did not end, the state is refused.
  enum class Ranks : std::uint8_t { alone, together };
  void perform(const char* name, Ranks ranks, const VendorCommunicator::Function& function);

  // On which functions may run that may hang; one at a time.
  VendorThread& thread() { return thread_; }

  // The library's error may be the echo of what happened at a peer: throws what we know of peers that have failed or
  // are gone. `call`: its text.
  void tell_of_peers(const std::string& call) const;
  // On devices. Throws the error that the library met after a call had returned; while one of its calls runs there, the
  // error of a peer that has failed, or has ended in the middle of it, too.
  enum class Running : std::uint8_t { no, yes };
  void check_later_errors(Running running) const;

  // For any thread, in any state. Running functions end soon, if the library lets them.
  void abort() noexcept;

 private:
  explicit VendorBackend(const Membership& membership);

  using Step = std::function<VendorWord(VendorCommunicator&)>;

  void agree() noexcept;
  void agree_in_steps();
  // What this rank says after a step: `step` runs on the thread, as long as nobody has given up.
  VendorWord run(const std::string& function, Step step);
  // False where the library is not used.
  bool agree_on(const VendorWord& mine, Deadline deadline);
  VendorWord find_library();
  VendorWord make_communicator();
  void settle(State state);

  const Membership& membership_;
  std::atomic<bool> stop_{false};
  ControlAllGather gather_;
  const std::shared_ptr<VendorCommunicator> made_ = std::make_shared<VendorCommunicator>();
  VendorThread thread_;
  std::thread agreement_;
  std::atomic<State> state_{State::untried};
  // Written by the agreement's thread before settle().
  std::vector<VendorWord> words_;
  std::uint64_t functions_ = 0;  // that all ranks have
  std::string why_not_;
  std::optional<Error> early_end_;
};

// Whether all ranks have come to that call of the communicator, or to a later one.
bool all_have_entered(const Membership& membership, std::uint64_t sequence);

}  // namespace sccl::runtime
