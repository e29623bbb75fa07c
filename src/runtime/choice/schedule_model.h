// The candidates for calls on named links (SCCL_TOPO). The links may be those of another machine: this host then runs
// that machine's schedules, chosen as on that machine.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "portfolio/clusters/cluster_planner.h"
#include "portfolio/portfolio.h"
#include "runtime/choice/dispatcher.h"
#include "runtime/choice/recently_used.h"
#include "schedule/layout.h"

namespace sccl::runtime {

// What connections between ranks on hosts hold. The model gives short slices more slots; between hosts, where slots are
// small, such slices are no short messages (kernels/host/messages/slot_places.h). On a host connections have few for
// all messages, but nothing is on its way there: the links are those of SCCL_TOPO, and plans are as for devices on
// them.
portfolio::Pipeline pipeline_of_hosts(std::size_t slot_bytes);
// The same of ranks on devices: only connections on a host have more slots, as many as hold the longest short slice.
portfolio::Pipeline pipeline_of_devices(std::size_t slot_bytes);

// All results are pure functions of the topology and the call, so all ranks choose alike. Results that take long are
// kept, but not without end: each of a cluster's ranks may be the root of some call, and candidates for one root may
// take 10 MB. Those that were not used for longest are made again when they are needed.
class ScheduleModel {
 public:
  static constexpr std::size_t kMostKeptBytes = std::size_t{64} << 20;

  // `hosts`: links between hosts whose processors move every message. Composites alone serve, which cost no search, and
  // what a message costs a processor counts.
  enum class Candidacy : std::uint8_t { all, hosts };
  ScheduleModel(topology::Topology topology, const portfolio::Pipeline& pipeline, Candidacy candidacy = Candidacy::all,
                std::size_t most_kept_bytes = kMostKeptBytes);

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
  std::shared_ptr<const std::vector<portfolio::Candidate>> candidates(Collective collective, Rank root,
                                                                      const std::string& asked = {});

  // The composite of that name, if the candidate is one.
  std::optional<compose::Verified> composite(Collective collective, Rank root, const std::string& name);

  // What a protocol's cost depends on.
  struct Outline {
    schedule::ChunkLayout layout;
    int steps = 0;
    double busiest_us = 0;  // of the busiest link; 0 where links have no times
  };
  // For a call of `bytes`. Of a composite without its flat form, where only composites serve.
  Outline outline(Collective collective, Rank root, const std::string& name, std::size_t bytes, bool timed);

  // The candidate as a flat schedule. For composites this takes time and memory linear in the sends of all ranks.
  schedule::Schedule schedule(Collective collective, Rank root, const std::string& name);

  // Whether candidates besides composites serve, so that a search for more of them makes sense.
  bool takes_more() const { return !by_levels_; }

  int hosts() const { return hosts_; }

  // About the size of what is kept.
  std::size_t kept_bytes() const { return candidates_.bytes() + composites_.bytes(); }

 private:
  using Candidates = std::vector<portfolio::Candidate>;
  using Composites = std::vector<portfolio::CompositeCandidate>;

  using Key = std::pair<Collective, Rank>;
  struct Wanted {
    std::string asked;
    Candidates added;
  };

  std::shared_ptr<const Composites> composites(Collective collective, Rank root);
  // Foreseen times by candidate, fastest first.
  using Foreseen = std::vector<std::pair<std::size_t, double>>;
  const Foreseen& foreseen(const Key& key, const Composites& all, double bytes);
  std::vector<Ranked> ranking_by_levels(Collective collective, Rank root, double bytes, const std::string& asked);

  topology::Topology topology_;
  int hosts_;
  portfolio::Pipeline pipeline_;
  RecentlyUsed<Key, Candidates> candidates_;
  std::map<Key, Wanted> wanted_;  // what candidates that are made again must contain as well
  bool by_levels_;                // for large clusters: only composites serve them
  bool counts_messages_;
  std::unique_ptr<portfolio::ClusterPlanner> planner_;  // null until it is needed
  RecentlyUsed<Key, Composites> composites_;
  // The last result: a choice on devices asks twice, and simulations take some hundredths of a second.
  std::tuple<Key, double, Foreseen> last_;
};

}  // namespace sccl::runtime
