// An order by time for a composite on many ranks whose hosts do alike: that of one host's sends, which all hosts keep.
#pragma once

#include <memory>

#include "compose/lowering/host_share.h"
#include "compose/proof/verify.h"

namespace sccl::portfolio {

// Made when it is first asked for: few composites are simulated. Copies share it. For several threads at once.
class OrderedShare {
 public:
  // Of a composite that is Composite::alike and has no order.
  OrderedShare(compose::Verified composite, std::shared_ptr<const compose::HostShares> shares);

  // With the steps of the order, or those of frames if there is none. Null where hosts do not do alike.
  const schedule::HostShare* share() const;

  // With its order, if it gets one and that is proved.
  compose::Verified composite() const;

  // The memory that it takes, about. Less than that while it is not made.
  std::size_t bytes() const;

 private:
  struct State;
  void make() const;
  std::shared_ptr<State> state_;
};

}  // namespace sccl::portfolio
