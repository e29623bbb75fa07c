#include "runtime/host/current_call.h"

#include "base/types.h"

namespace sccl::runtime {

void CurrentCall::forget() {
  signature = {};
  hash = 0;
  collective = transfers = repeatable = eager = lanes_alone = compares = false;
  comparing.reset();
  awaiting.reset();
}

void CurrentCall::begin(const CollectiveRequest& request, std::uint32_t options) {
  forget();
  const CollectiveInfo& about = info(request.collective);
  signature = {++count_, request.collective, request.count, request.type, request.reduction.op, request.root};
  if (!about.reduces) signature.op = ReduceOp::sum;
  if (!about.rooted) signature.root = 0;
  signature.options = options;
  collective = true;
}

}  // namespace sccl::runtime
