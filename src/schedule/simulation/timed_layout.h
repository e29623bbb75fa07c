// The sends of a schedule laid on its links, forwards or backwards in time: what the search for steps by time
// (steps_by_time.h) does again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "schedule/host_share.h"
#include "schedule/schedule.h"

namespace sccl::schedule::timed {

using Picoseconds = double;  // whole numbers, rounded as simulate() does, so that the same sends compete for links

inline constexpr double kPsPerUs = 1e6;
inline constexpr Picoseconds kNever = std::numeric_limits<double>::infinity();

inline std::size_t at(int index) { return static_cast<std::size_t>(index); }

// What is laid: all sends of a schedule, or those of the host that stands for all (null: none does). There a send
// arrives as another chunk, and connections are those of the whole.
struct Sends {
  explicit Sends(const Schedule& all) : schedule(all) {}
  explicit Sends(const HostShare& of_host) : schedule(of_host.schedule), share(&of_host) {}

  ChunkId arrives_as(std::size_t send) const {
    return share == nullptr ? schedule.sends[send].chunk : share->beyond[send].arrives_as;
  }
  Rank receiver(std::size_t send) const { return share == nullptr ? schedule.sends[send].dst : share->beyond[send].to; }
  Rank receivers() const { return share == nullptr ? schedule.ranks : share->ranks; }

  const Schedule& schedule;
  const HostShare* share = nullptr;
};

// Links and the paths of connections.
struct Network {
  struct Link {
    Picoseconds alpha = 0;
    Picoseconds time = 0;                           // of a chunk
    int lanes = 1;                                  // those that a chunk takes together count as one
    std::vector<std::pair<int, Picoseconds>> sets;  // each with the time for which a chunk takes a lane of it
  };
  struct Connection {
    int first_of_way = 0;
    int hops = 0;
    int slots = 0;
  };

  Network(const Sends& sends, double chunk_bytes);

  // No layout takes less time.
  Picoseconds busiest() const;
  // By link, of all its lanes together.
  std::vector<Picoseconds> taken() const;

  std::span<const EdgeId> way_of(int connection) const {
    const Connection& one = connections[at(connection)];
    return std::span(ways_).subspan(at(one.first_of_way), at(one.hops));
  }

  std::vector<Link> links;
  std::vector<int> lanes_of_set;
  std::vector<Connection> connections;
  std::vector<int> connection_of;  // by send

 private:
  void add_connections(const Sends& all, const EdgeIndex& edges, int slots);
  std::vector<EdgeId> ways_;  // of one connection after the other
};

enum class Direction : std::uint8_t { forwards, backwards };

// What sends wait for in one direction of time: all that reaches their ranks in earlier steps. A value is a chunk at a
// rank.
struct Waits {
  // What a layout asks of a send, together: sends are visited in no order that memory knows.
  struct One {
    int reads = 0;
    int makes = 0;
    int arrivals_before = 0;  // how many it waits for
    int connection = 0;
  };

  Waits(const Sends& all_sends, const Network& network, const std::vector<int>& by_step, Direction of);

  std::size_t values() const { return first_reader.size() - 1; }
  int writers(int value) const { return first_writer[at(value) + 1] - first_writer[at(value)]; }

  Direction direction;
  std::vector<One> all;                         // by send
  std::vector<int> first_reader, first_writer;  // by value: how many sends have values before it; one more at the end

 private:
  template <typename InTurn>
  void number_values(const Sends& all_sends, const Network& network, const InTurn& in_turn);
};

// Which sends a connection passes: of those that are there the first in an order, the same of the next few alone, or
// all in this order.
enum class Passing : std::uint8_t { what_is_there, what_is_near, in_order };

struct Laid {
  Picoseconds time = 0;             // infinite if it takes longer than it may; then the lists are of no use
  std::vector<int> begun, arrived;  // sends in the order in which they began, or were there
};

// Each send as soon as it can. Ends when it takes longer than `most`, or a link has waited so long that it will.
Laid lay(const Network& network, const Waits& waits, const std::vector<int>& order, Passing passing, Picoseconds most);

}  // namespace sccl::schedule::timed
