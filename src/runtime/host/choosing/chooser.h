// Which plan serves each call of a communicator. Every rank computes the same answer without asking the others.
//
// A call belongs to an entry: collective, root, size class, and whether the order of summation matters. An entry is
// settled at once if there is one candidate, or a measured choice in the cache. With SCCL_TUNE=online the candidates
// race (autotuner.h), by times that all ranks read at the same call (timed_trials.h).
//
// The path of a settled call allocates nothing and takes no lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/call/signature.h"
#include "runtime/choice/asked_schedules.h"
#include "runtime/choice/plan_cache.h"
#include "runtime/choice/schedule_model.h"
#include "runtime/choice/tuning/background_synthesis.h"
#include "runtime/host/choosing/choice_entry.h"
#include "runtime/host/choosing/timed_trials.h"
#include "runtime/host/choosing/tuning_record.h"
#include "runtime/membership/membership.h"
#include "runtime/vendor/vendor_calls.h"

namespace sccl::runtime {

class Chooser {
 public:
  // Valid until the next begin(). Without a plan: the vendor's library serves.
  using Served = ServedChoice;

  // Both must outlive the chooser; `vendor` may be null.
  explicit Chooser(const Membership& membership, VendorBackend* vendor = nullptr);
  // Rank 0 stores the measured choices in the cache.
  ~Chooser();
  Chooser(const Chooser&) = delete;
  Chooser& operator=(const Chooser&) = delete;

  // `mapped`: every rank uses every other's buffers of this call in place.
  enum class Buffers : std::uint8_t { any, mapped };

  // Serves the calls for which begin() gives no plan.
  VendorCalls& vendor() const { return *vendor_; }

  // The next collective, numbered one after the other, of `bytes` > 0. Throws as PlanCache::find.
  // `wish`: of this call alone, or null.
  const Served& begin(const CallSignature& call, std::size_t bytes, Buffers buffers = Buffers::any,
                      const CallWish* wish = nullptr);
  // Whether there is a schedule by that algorithm.
  bool can_serve(const std::string& algorithm, Collective collective, Rank root) {
    if (algorithm == kVendorAlgorithm) return vendor_->choice().may_serve();
    return asked_.can_serve(algorithm, collective, root, membership_.ranks, membership_.settings,
                            schedule_model_.get());
  }
  // Whether the call that began last, made again, would be served the same way, and nobody be asked or told anything.
  bool at_rest() const {
    return !background_synthesis_ && trials_.none_pending() && last_entry_ != nullptr && last_entry_->settled;
  }
  // The choice for the call that began last; null before the first call.
  const Choice* served() const { return last_entry_ == nullptr ? nullptr : &last_entry_->serving.choice; }
  // The call is complete on this rank.
  void end() { trials_.end(); }
  // Ends background work soon. For any thread.
  void interrupt();

 private:
  using Entry = ChoiceEntry;

  // Whether the vendor's library can take the calls of an entry.
  enum class Vendor : std::uint8_t { none, serves };

  Entry& entry_of(const CallSignature& call, std::size_t bytes, Buffers buffers);
  Entry& entry_with(const CallSignature& call, std::size_t bytes, const CallWish& wish);
  std::unique_ptr<Entry> make_entry(const TuningKey& key, Vendor vendor);
  std::vector<Ranked> ranking(const Question& question, const Settings& settings);
  void serve_wish(Entry& entry, const CallWish& wish, const char* why, Vendor vendor);
  std::unique_ptr<Entry> make_mapped_entry(const TuningKey& key);
  void settle_at_once(Entry& entry);
  bool take_measured(Entry& entry, Vendor vendor);
  void want_better(const TuningKey& key);
  void take_up_update();
  void begin_race(Entry& entry);
  void keep_same_sums(std::vector<Ranked>& ranked, const Question& question);
  const Plan* plan(Entry& entry, std::size_t entrant);
  const Served& take_turn(Entry& entry, const CallSignature& call);
  void collect(std::uint64_t call);
  void settle(Entry& entry);

  const Membership& membership_;
  const std::unique_ptr<VendorCalls> vendor_;
  SharedResults shared_results_;
  PlanCache plans_;
  std::unique_ptr<ScheduleModel> schedule_model_;              // null unless the user has named the links
  std::unique_ptr<BackgroundSynthesis> background_synthesis_;  // likewise
  int updates_ = 0;                                            // that the schedule model has taken up
  std::unordered_map<std::uint64_t, std::unique_ptr<Entry>> entries_;
  std::map<std::pair<std::uint64_t, CallWish>, std::unique_ptr<Entry>> wished_;  // with single calls
  AskedSchedules asked_;
  std::uint64_t last_key_ = ~std::uint64_t{0};
  Entry* last_entry_ = nullptr;

  TimedTrials trials_;
  TuningRecord record_;
};

}  // namespace sccl::runtime
