// Calls on links that the user has named (SCCL_TOPO): any machine's schedules run here, chosen as they would be there.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "portfolio/portfolio.h"
#include "runtime/dispatcher.h"

namespace sccl::runtime {

// Pure functions of the topology and the call, so that all ranks choose alike (rule 1); what they take long for is kept.
class Rehearsal {
 public:
  Rehearsal(topology::Topology topology, const portfolio::Pipeline& pipeline);

  struct Call {
    Collective collective;
    Rank root;
    std::size_t count;
    std::size_t element_bytes;
  };

  // The candidate that is predicted to be fastest for calls of this size class (up to the next power of two), or the
  // fastest of those that the settings ask for, when there is one.
  Choice choose(const Call& call, const Settings& settings);

  const schedule::Schedule& schedule(Collective collective, Rank root, const std::string& name);

 private:
  using Candidates = std::vector<portfolio::Candidate>;
  const Candidates& candidates(Collective collective, Rank root);

  topology::Topology topology_;
  portfolio::Pipeline pipeline_;
  std::map<std::pair<Collective, Rank>, std::shared_ptr<const Candidates>> candidates_;
  std::map<std::tuple<Collective, Rank, std::size_t, std::size_t>, std::string> chosen_;  // by count class and element
};

}  // namespace sccl::runtime
