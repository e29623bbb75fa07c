// Which plan serves each call of a communicator. Every rank computes the same answer without asking the others.
//
// A call belongs to an entry: collective, root, size class, and whether the order of summation matters. An entry is
// settled at once if there is one candidate, or a measured choice in the cache. With SCCL_TUNE=online the candidates
// race (autotuner.h). A race needs times that all ranks know at the same call, without waiting:
//
//   call          j            j+1                      k > j+1
//   every rank    is timed,    a call in which every    has left call j+1, so every rank has entered it
//                 writes when  rank needs something     and has written the record of call j before:
//                 it began     of every other           all records of j are read, and the race takes
//                 and ended    (AllReduce, ...)         last end - last begin
//
// Which calls are timed, and when their times can be read, follows from the sequence of calls alone. A program that
// makes only rooted calls has no such call j+1, and keeps the predicted choice.
//
// The path of a settled call allocates nothing and takes no lock.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/call/signature.h"
#include "runtime/choice/asked_schedules.h"
#include "runtime/choice/plan_cache.h"
#include "runtime/choice/schedule_model.h"
#include "runtime/choice/tuning/autotuner.h"
#include "runtime/choice/tuning/background_synthesis.h"
#include "runtime/choice/tuning/ranking.h"
#include "runtime/choice/tuning/tuning_file.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {

class Chooser {
 public:
  // The choice and the plan that serve a call; valid until the next begin().
  struct Served {
    Choice choice;
    const Plan* plan = nullptr;
  };

  // `membership` must outlive the chooser.
  explicit Chooser(const Membership& membership);
  // Rank 0 stores the measured choices in the cache.
  ~Chooser();
  Chooser(const Chooser&) = delete;
  Chooser& operator=(const Chooser&) = delete;

  // `mapped`: every rank uses every other's buffers of this call in place.
  enum class Buffers : std::uint8_t { any, mapped };

  // The next collective, numbered one after the other, of `bytes` > 0. Throws as PlanCache::find.
  // `wish`: of this call alone, or null.
  const Served& begin(const CallSignature& call, std::size_t bytes, Buffers buffers = Buffers::any,
                      const CallWish* wish = nullptr);
  // Whether there is a schedule by that algorithm.
  bool can_serve(const std::string& algorithm, Collective collective, Rank root) {
    return asked_.can_serve(algorithm, collective, root, membership_.ranks, membership_.settings,
                            schedule_model_.get());
  }
  // Whether the call that began last, made again, would be served the same way, and nobody be asked or told anything.
  bool at_rest() const {
    return !background_synthesis_ && pending_.empty() && last_entry_ != nullptr && last_entry_->settled;
  }
  // The choice for the call that began last; null before the first call.
  const Choice* served() const { return last_entry_ == nullptr ? nullptr : &last_entry_->serving.choice; }
  // The call is complete on this rank.
  void end() {
    if (timed_) note_end();
  }
  // Ends background work soon. For any thread.
  void interrupt();

 private:
  struct Entry {
    TuningKey key;
    Question question;
    std::vector<Ranked> ranked;
    std::vector<Served> entrants;          // plans are made when their turn comes
    std::unique_ptr<Autotuner> autotuner;  // null if the entry was settled from the beginning
    Served serving;
    bool settled = false;
  };
  struct Trial {
    Entry* entry = nullptr;
    std::uint64_t number = 0;
    std::uint64_t call = 0;
  };
  struct TraceLine {
    TuningKey key;
    Choice choice;
    std::uint64_t call = 0;
    std::uint64_t ns = 0;
  };

  Entry& entry_of(const CallSignature& call, std::size_t bytes, Buffers buffers);
  Entry& entry_with(const CallSignature& call, std::size_t bytes, const CallWish& wish);
  std::unique_ptr<Entry> make_entry(const TuningKey& key);
  std::vector<Ranked> ranking(const Question& question, const Settings& settings);
  void serve_wish(Entry& entry, const CallWish& wish, const char* why);
  std::unique_ptr<Entry> make_mapped_entry(const TuningKey& key);
  void settle_at_once(Entry& entry);
  bool take_measured(Entry& entry);
  void want_better(const TuningKey& key);
  void take_up_update();
  void begin_race(Entry& entry);
  void keep_same_sums(std::vector<Ranked>& ranked, const Question& question);
  const Plan& plan(Entry& entry, std::size_t entrant);
  const Served& take_turn(Entry& entry, const CallSignature& call);
  void note_end();
  void collect(std::uint64_t call);
  std::uint64_t duration_ns(std::uint64_t trial) const;
  void settle(Entry& entry);
  void log_entry(const Entry& entry, const std::string& what) const;
  void store() const;
  void write_trace() const;

  const Membership& membership_;
  SharedPlans shared_plans_;
  PlanCache plans_;
  const bool tracing_;
  std::unique_ptr<ScheduleModel> schedule_model_;              // null unless the user has named the links
  std::unique_ptr<BackgroundSynthesis> background_synthesis_;  // likewise
  std::unordered_map<std::uint64_t, std::unique_ptr<Entry>> entries_;
  std::map<std::pair<std::uint64_t, CallWish>, std::unique_ptr<Entry>> wished_;  // with single calls
  AskedSchedules asked_;
  std::uint64_t last_key_ = ~std::uint64_t{0};
  Entry* last_entry_ = nullptr;

  bool timed_ = false;  // whether the call in progress is timed
  std::uint64_t begin_ns_ = 0;
  std::uint64_t trials_ = 0;
  std::deque<Trial> pending_;
  std::uint64_t last_joining_call_ = 0;  // the last call in which every rank needed something of every other rank
  TuningTable measured_;
  std::vector<TraceLine> trace_;
};

}  // namespace sccl::runtime
