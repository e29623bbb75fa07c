// The candidates for calls on named links (SCCL_TOPO). The links may be those of another machine: this host then runs
// that machine's schedules, chosen as on that machine.
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

// All results are pure functions of the topology and the call, so all ranks choose alike. Results that take long are
// kept.
class ScheduleModel {
 public:
  // `hosts`: links between hosts whose processors move every message. Composites alone serve, which cost no search, and
  // what a message costs a processor counts.
  enum class Candidacy : std::uint8_t { all, hosts };
  ScheduleModel(topology::Topology topology, const portfolio::Pipeline& pipeline, Candidacy candidacy = Candidacy::all);

  struct Ranked {
    std::string name;
    double predicted_us = 0;  // 0: the links have no figures
    bool asked = false;       // SCCL_ALGO asks for this candidate
  };
  // The candidates for a call of `bytes`, ordered by predicted time, fastest first. Candidates that the settings ask
  // for come before the others. Never empty.
  std::vector<Ranked> ranking(Collective collective, Rank root, std::size_t bytes, const Settings& settings);

  // Adds the candidates whose names are new. True if there was at least one. Only with takes_more().
  bool add(Collective collective, Rank root, std::vector<portfolio::Candidate> more);

  // All candidates. The first call for a collective and root searches for them.
  const std::vector<portfolio::Candidate>& candidates(Collective collective, Rank root, const std::string& asked = {});

  // The composite of that name, if the candidate is one.
  std::optional<compose::Verified> composite(Collective collective, Rank root, const std::string& name);

  // The candidate as a flat schedule. For composites this takes time and memory linear in the sends of all ranks.
  const schedule::Schedule& schedule(Collective collective, Rank root, const std::string& name);

  // Whether candidates besides composites serve, so that a search for more of them makes sense.
  bool takes_more() const { return !by_levels_; }

  int hosts() const { return hosts_; }

 private:
  using Candidates = std::vector<portfolio::Candidate>;
  using Composites = std::vector<portfolio::CompositeCandidate>;

  const Composites& composites(Collective collective, Rank root);
  std::vector<Ranked> ranking_by_levels(Collective collective, Rank root, double bytes, const std::string& asked);

  topology::Topology topology_;
  int hosts_;
  portfolio::Pipeline pipeline_;
  std::map<std::pair<Collective, Rank>, std::shared_ptr<const Candidates>> candidates_;
  // For large clusters: only composites serve them. flat_ holds the flat forms that were asked for.
  bool by_levels_;
  bool counts_messages_;
  std::optional<portfolio::CompositePlanner> planner_;
  std::map<std::pair<Collective, Rank>, Composites> composites_;
  std::map<std::tuple<Collective, Rank, std::string>, schedule::Schedule> flat_;
};

}  // namespace sccl::runtime
