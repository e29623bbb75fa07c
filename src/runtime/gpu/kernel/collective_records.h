// The records by which ranks compare their collectives: each collective is entered before it is launched, and its
// messages carry the hash of its signature.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/device/program.h"
#include "runtime/call/requests.h"
#include "runtime/call/signature.h"
#include "runtime/choice/dispatcher.h"
#include "runtime/gpu/resources/symmetric_windows.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {

class CollectiveRecords {
 public:
  explicit CollectiveRecords(Membership& membership) : membership_(membership) {}

  // The next collective. `used`: the windows in which its buffers are used in place.
  // `options`: CallOptions::digest(), 0 where the call has none.
  void enter(const CollectiveRequest& request, const std::optional<SymmetricWindows::Pair>& used,
             std::uint32_t options);
  // The number of the collective that was entered last.
  std::uint64_t last() const { return calls_; }
  // Fills in what is the same however the collective that was entered last is run.
  void describe(device::Call& call, const CollectiveRequest& request) const;
  // log_choice() logs which choice serves the last entered collective; logs_choices(): whether that line is wanted.
  static bool logs_choices();
  void log_choice(const Choice& choice, const std::string& how) const;

 private:
  Membership& membership_;
  std::uint64_t calls_ = 0;
};

}  // namespace sccl::runtime
