// Calls on links that the user has named (SCCL_TOPO): any machine's schedules run here, chosen as they would be there.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "portfolio/composites.h"
#include "portfolio/portfolio.h"
#include "runtime/choice/dispatcher.h"

namespace sccl::runtime {

// Pure functions of the topology and the call, so that all ranks choose alike. Results that take long are kept.
class ScheduleModel {
 public:
  // `hosts`: links between hosts whose processors move every message. Composites alone serve, which cost no search, and
  // what a message costs a processor counts.
  enum class Candidacy : std::uint8_t { all, hosts };
  ScheduleModel(topology::Topology topology, const portfolio::Pipeline& pipeline, Candidacy candidacy = Candidacy::all);

  struct Ranked {
    std::string name;
    double predicted_us = 0;  // 0: links without figures
    bool asked = false;       // by SCCL_ALGO
  };
  // The candidates for a call of so many bytes, as predicted, fastest first; those that the settings ask for, when
  // there are any, come before the others. Never empty.
  std::vector<Ranked> ranking(Collective collective, Rank root, std::size_t bytes, const Settings& settings);

  // More of them, where their names are new. True when there was one.
  bool add(Collective collective, Rank root, std::vector<portfolio::Candidate> more);

  // All that take part; searched for when asked for the first time.
  const std::vector<portfolio::Candidate>& candidates(Collective collective, Rank root);

  const schedule::Schedule& schedule(Collective collective, Rank root, const std::string& name);

 private:
  using Candidates = std::vector<portfolio::Candidate>;
  using Composites = std::vector<portfolio::CompositeCandidate>;

  const Composites& composites(Collective collective, Rank root);
  std::vector<Ranked> ranking_by_levels(Collective collective, Rank root, double bytes, const std::string& asked);

  topology::Topology topology_;
  portfolio::Pipeline pipeline_;
  std::map<std::pair<Collective, Rank>, std::shared_ptr<const Candidates>> candidates_;
  // Of large clusters, which composites alone serve; flat forms are made of those that are chosen.
  bool by_levels_;
  bool counts_messages_;
  std::optional<portfolio::CompositePlanner> planner_;
  std::map<std::pair<Collective, Rank>, Composites> composites_;
  std::map<std::tuple<Collective, Rank, std::string>, schedule::Schedule> flat_;
};

}  // namespace sccl::runtime
