#include "compose/proof/networks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace sccl::compose {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Whether the port near an end of the chunk decides which turn the chunk takes, or the chunk takes the turn of another
// rank's port.
enum class Turn : std::uint8_t { of_this_end, of_other_end };

class Proof {
 public:
  Proof(const Composite& composite, const topology::Cluster& cluster)
      : composite_(composite), cluster_(cluster), turns_(in_turn(composite.hosts.front())) {}

  std::string fault() const {
    for (const auto& kind : composite_.kinds)
      if (kind->has_entries()) return "its hosts have entries, and no path joins the networks of their NICs";
    if (composite_.rails_of_pairs) return fault_of_pairs();
    for (std::size_t host = 1; host < composite_.hosts.size(); ++host)
      if (in_turn(composite_.hosts[host]) != turns_)
        return fmt::format("hosts 0 and {} take ports on other networks in the same turn, and no path joins them",
                           host);
    if (std::string fault = fault_of_ends(); !fault.empty()) return fault;
    return composite_.at_root ? fault_at_root() : "";
  }

 private:
  int network(const Host& host, int local) const { return cluster_.network_of[at(host.ranks[at(local)])]; }
  int network_in(int turn) const { return turns_[at(turn) % turns_.size()]; }

  // By turn, for the shortest period that divides the number of ports.
  std::vector<int> in_turn(const Host& host) const {
    std::vector<int> all;
    for (const int port : host.ports) all.push_back(network(host, port));
    for (std::size_t period = 1; period < all.size(); ++period) {
      if (all.size() % period != 0) continue;
      bool repeats = true;
      for (std::size_t turn = period; turn < all.size() && repeats; ++turn) repeats = all[turn] == all[turn - period];
      if (!repeats) continue;
      all.resize(period);
      break;
    }
    return all;
  }

  // A block of a pair of hosts keeps to a rail of both: there must be one, within one network.
  std::string fault_of_pairs() const {
    if (composite_.pace_across > 0) return "some blocks change rails, and no path joins the networks of these";
    std::map<int, int> network_of_rail;
    std::map<std::set<int>, std::size_t> hosts_on;  // by the rails of its ports: a host
    for (std::size_t index = 0; index < composite_.hosts.size(); ++index) {
      const Host& host = composite_.hosts[index];
      for (std::size_t local = 0; local < host.ranks.size(); ++local) {
        const int here = network(host, static_cast<int>(local));
        if (here >= 0 && network_of_rail.emplace(host.rails[local], here).first->second != here)
          return fmt::format("rail {} is on several networks, which no path joins", host.rails[local]);
      }
      std::set<int> rails;
      for (const int port : host.ports) rails.insert(host.rails[at(port)]);
      hosts_on.emplace(std::move(rails), index);
    }
    for (const auto& [rails, host] : hosts_on)
      for (const auto& [others, other] : hosts_on)
        if (std::ranges::none_of(rails, [&](int rail) { return others.contains(rail); }))
          return fmt::format("hosts {} and {} have no rail in common, and no path joins theirs", host, other);
    return "";
  }

  // Ends of chunks at a port near them.
  std::string fault_of_ends() const {
    const bool source = composite_.source_is_near;
    const bool sink = composite_.sink_is_near;
    switch (composite_.collective) {
      case Collective::allgather:
        return source ? fault_near_all(Turn::of_this_end) : "";
      case Collective::reducescatter:
        return sink ? fault_near_all(Turn::of_this_end) : "";
      case Collective::alltoall:
        if (source) return fault_near_all(Turn::of_other_end);
        return sink ? fault_near_all(Turn::of_this_end) : "";
      case Collective::gather:
      case Collective::scatter: {
        const bool gathers = composite_.collective == Collective::gather;
        std::string fault = (gathers ? sink : source) ? fault_near(composite_.root, Turn::of_other_end) : "";
        return fault.empty() && (gathers ? source : sink) ? fault_near_all(Turn::of_this_end) : fault;
      }
      case Collective::broadcast:
        return source ? fault_near(composite_.root, Turn::of_other_end) : "";
      case Collective::reduce:
        return sink ? fault_near(composite_.root, Turn::of_other_end) : "";
      default:
        return "";
    }
  }

  std::string fault_near_all(Turn turn) const {
    for (Rank rank = 0; rank < composite_.ranks(); ++rank)
      if (std::string fault = fault_near(rank, turn); !fault.empty()) return fault;
    return "";
  }

  std::string fault_near(Rank rank, Turn turn) const {
    const Host& host = composite_.hosts[at(cluster_.host_of[at(rank)])];
    const int local = cluster_.local_of[at(rank)];
    const auto fits = [&](int port) {
      if (turns_.size() == 1 && network(host, port) == turns_.front()) return true;
      return turn == Turn::of_this_end && composite_.turns_are_rails && std::ranges::count(host.ports, port) > 0;
    };
    const bool fit = host.all_own() ? fits(local) : std::ranges::all_of(host.near[at(local)], fits);
    if (fit) return "";
    return fmt::format("a port near rank {} is not on the network that the rank's chunks take elsewhere", rank);
  }

  std::string fault_at_root() const {
    const RootHost& root = *composite_.at_root;
    const Host& host = composite_.hosts[at(cluster_.host_of[at(composite_.root)])];
    const Routes routes(composite_);
    const int pieces = std::max(1, composite_.chunks_per_rank / composite_.frames);
    for (ChunkId chunk = 0; chunk < routes.chunks(); ++chunk) {
      const int turn = chunk / composite_.frames;
      const int of_root = chunk % composite_.frames * pieces + turn;
      const auto local = at(composite_.root_turns[at(of_root) % composite_.root_turns.size()]);
      // Without entries the next hosts exchange the chunk with the first exit.
      if (!root.exits.empty() && !root.exits[local].empty() &&
          network(host, root.exits[local].front()) != network_in(turn))
        return fmt::format("chunk {} leaves the root's host on another network than it enters the next one", chunk);
      if (root.returns.empty()) continue;
      const Host& last = composite_.hosts[at(routes.last_host(chunk))];
      for (const int device : root.returns[local])
        if (network(host, device) != network(last, returns_from(last, device)))
          return fmt::format("chunk {} returns to the root's host on another network than it leaves the last one",
                             chunk);
    }
    return "";
  }

  const Composite& composite_;
  const topology::Cluster& cluster_;
  std::vector<int> turns_;  // networks of all hosts' ports, in turn
};

}  // namespace

std::string fault_between_networks(const Composite& composite, const topology::Cluster& cluster) {
  if (composite.hosts.size() < 2 || cluster.has_one_network()) return "";
  return Proof(composite, cluster).fault();
}

}  // namespace sccl::compose
