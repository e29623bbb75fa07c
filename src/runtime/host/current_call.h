// What a rank's executor knows of the collective in progress, or of the last one.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/call/requests.h"
#include "runtime/call/signature.h"
#include "runtime/settings/call_wish.h"

namespace sccl::runtime {

class CurrentCall {
 public:
  CallSignature signature;
  std::uint64_t hash = 0;  // of the signature without its number
  bool collective = false;
  bool transfers = false;    // instead
  bool repeatable = false;   // a repetition of the call is served the same way
  bool eager = false;        // reduced by the ranks that are there
  bool lanes_alone = false;  // a turn steps its lanes and nothing else: one test in every step
  bool compares = false;     // at its end, the call compares its signature with all ranks' signatures
  // Set while the ranks compare their buffers: the call begins when they have.
  std::optional<CollectiveRequest> comparing;
  // Set while a decision of rank 0 is awaited that holds from this call on (choosing/arrival_agreement.h).
  struct Awaiting {
    CollectiveRequest request;
    const CallOptions* options = nullptr;
  };
  std::optional<Awaiting> awaiting;
  bool is_held_back() const { return comparing.has_value() || awaiting.has_value(); }

  // The next collective. `options`: CallOptions::digest(), or 0.
  void begin(const CollectiveRequest& request, std::uint32_t options);
  void begin_transfers() {
    forget();
    transfers = true;
  }
  // Whether the collective is as the last one. The answer follows from the sequence of calls alone, so it is the same
  // on every rank.
  bool repeats(const CollectiveRequest& request) const {
    return repeatable && request.count == signature.count && request.collective == signature.collective &&
           request.type == signature.type && request.reduction.op == signature.op && request.root == signature.root;
  }
  void begin_again() {
    signature.sequence = ++count_;
    compares = false;
  }
  // Of the collective's messages.
  std::uint32_t message_hash() const { return CallSignature::hash(count_, hash); }

 private:
  void forget();

  std::uint64_t count_ = 0;  // of collectives
};

}  // namespace sccl::runtime
