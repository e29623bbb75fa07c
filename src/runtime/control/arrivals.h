// Measures when the ranks enter a call, and keeps who is last how often.
//
// Every rank notes its time in the calls that are measured: each call of many bytes, and of short ones one in 24, at
// numbers that look like chance, so that calls which repeat in a rhythm are all met. Which ones follows from the calls
// alone, so all ranks measure the same ones. A rank looks at what all ranks of its host have noted when it begins a
// later measured call, the ranks in turns, and adds what it finds to sums in shared memory: of the rank that was last,
// and of the call's collective and size class. Hosts share no clock. There each rank sums how long it was in measured
// calls, and its agent passes that on: who comes last waits least.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/types.h"
#include "runtime/call/arrival_pattern.h"
#include "runtime/control/control_plane.h"

namespace sccl::runtime {

// The calls whose arrivals are summed together.
struct ArrivalKind {
  Collective collective = Collective::allreduce;
  int size_class = 0;  // SizeClass::number

  bool operator==(const ArrivalKind&) const = default;
};

// Of one rank, in the thread that makes its calls.
class ArrivalMeter {
 public:
  // From so many bytes on every call is measured: it takes long enough for the measurement not to matter.
  static constexpr std::size_t kLongBytes = 16384;

  // `control` must outlive it. `title` names the communicator to users.
  ArrivalMeter(const ControlPlane& control, std::string title);

  // A call of a smaller number need not be told if it is the same as the last one, or is short.
  std::uint64_t next() const { return next_; }
  // This rank enters a call.
  void enter(std::uint64_t call, const ArrivalKind& kind, std::size_t bytes, std::uint64_t now_ns = monotonic_ns());
  // And leaves it. Asked only where hosts share no clock, and for ArrivalGate.
  void leave(std::uint64_t now_ns = monotonic_ns());
  // It has entered a call that is measured, and has not left it.
  bool is_inside() const { return inside_; }
  std::uint64_t entered_ns() const { return entered_ns_; }
  // When the last rank entered that call; 0 if some rank of this host has not.
  std::uint64_t last_arrival_ns();

 private:
  void fold(std::uint64_t now_ns);
  bool read_arrivals(std::uint64_t number, bool& replaced);
  void add(const ArrivalKind& kind);
  void tell(std::uint64_t now_ns);

  const ControlPlane& control_;
  const std::string title_;
  std::vector<Rank> ranks_;  // of this host
  std::uint64_t next_ = 1;
  std::uint64_t next_short_ = 1;  // the next short call that is measured has at least this number
  std::uint64_t measured_ = 0;    // calls
  std::uint64_t turn_ = 0;        // the measured call whose arrivals this rank looks at next
  std::array<ArrivalKind, ArrivalState::kKept> kinds_{};
  std::vector<std::uint64_t> arrivals_;  // of one call, by place in ranks_
  std::vector<std::uint64_t> scratch_;
  std::uint64_t entered_ns_ = 0;
  bool inside_ = false;
  // Of the host's first rank: what has been told to the log.
  std::uint64_t next_look_ns_ = 0;
  std::vector<LastArrivals> told_;
};

// What the sums say, for whoever asks.
struct ArrivalReport {
  // Of the ranks of one host, whose arrivals are compared with one another's.
  struct Host {
    std::string name;
    std::vector<Rank> ranks;
    std::vector<LastArrivals> last;  // by place in `ranks`
    std::uint64_t calls = 0;         // that were measured and looked at
    Rank straggler = -1;             // -1: no rank is last time and again
    std::string text;                // the sentence that names it
  };
  // Of calls as ranks of this process's host enter them.
  struct Kind {
    ArrivalKind kind;
    std::uint64_t calls = 0;
    double spread_us = 0;           // mean of the calls
    double mean_difference_us = 0;  // likewise
  };

  std::vector<Host> hosts;
  std::vector<Kind> kinds;
  // Over hosts: the rank that is in the measured calls for the shortest time, if it is its host's straggler.
  Rank straggler = -1;
  std::string text;
};
ArrivalReport arrival_report(const Members& members);
// The report's `kinds`.
std::vector<ArrivalReport::Kind> measured_arrivals(const Members& members);

}  // namespace sccl::runtime
