#include "runtime/communicator/call_options.h"

#include "base/error.h"
#include "base/log.h"
#include "runtime/communicator/communicator.h"
#include "runtime/host/executor.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {
namespace {

// NCCL's names of families whose members depend on the links.
void name_planner(std::string& algorithm, bool named_links) {
  if (algorithm == "tree" || algorithm == "trees") algorithm = named_links ? "trees" : "binomial";
  if (algorithm == "pat" && !named_links) algorithm = "recursive";
}

bool can_serve(Communicator& communicator, const CollectiveRequest& request, const CallOptions& wanted) {
  CollectiveRequest asked = request;
  asked.options = &wanted;
  return communicator.on_host() != nullptr && communicator.on_host()->can_serve(asked);
}

}  // namespace

const CallOptions* settle_options(Communicator& communicator, const CollectiveRequest& request, CallOptions wanted) {
  if (wanted.wish == CallWish{} || communicator.ranks() == 1) return nullptr;
  const std::string asked = wanted.wish.algorithm;
  name_planner(wanted.wish.algorithm, communicator.membership().topology.has_value());
  if (!asked.empty() && !can_serve(communicator, request, wanted)) {
    const char* const why = communicator.on_host() == nullptr ? "devices choose for all calls alike (SCCL_ALGO)"
                                                              : "there is no such schedule here (sccl env lists them)";
    if (wanted.must)
      fail(ErrorCode::invalid_usage,
           "rank {}: {} by algorithm {} cannot be had: {}: name another, or set "
           "forceAlgSelection to 0",
           communicator.rank(), info(request.collective).call_name, asked, why);
    log::info(log::Subsystem::tuning, "rank {}: {} by algorithm {} cannot be had: {}; the usual choice serves",
              communicator.rank(), info(request.collective).call_name, asked, why);
    wanted.wish.algorithm.clear();
  }
  if (wanted.wish == CallWish{} || communicator.on_host() == nullptr) return nullptr;
  return kept_options(wanted);
}

}  // namespace sccl::runtime
