#include "runtime/communicator/group.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <ranges>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/os/cancellation.h"
#include "base/os/out_of_memory.h"
#include "base/os/process.h"
#include "base/os/thread.h"
#include "base/settings/log.h"
#include "runtime/communicator/communicator.h"
#include "runtime/communicator/driver.h"
#include "runtime/gpu/kernel/device_executor.h"
#include "runtime/host/executor.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {
namespace {

using Subject = std::shared_ptr<Communicator>;

// How many nested groups this thread has open. The depth is not a member of Group, because every call reads the depth
// and a thread's Group is made at its first use.
constinit thread_local int depth = 0;

struct Group {
  ProcessMark made_by;
  std::optional<Error> error;
  bool lacks_memory = false;
  std::vector<Setup> setups;
  std::vector<Workload> work;
  std::vector<PointToPointRequest> spare;  // memory for transfers, of a group before

  Workload& of(const Subject& communicator) {
    const auto found = std::find_if(work.begin(), work.end(),
                                    [&](const Workload& entry) { return entry.communicator == communicator; });
    if (found != work.end()) return *found;
    work.emplace_back().communicator = communicator;
    work.back().transfers = std::exchange(spare, {});
    return work.back();
  }

  // The common group: nothing but transfers of one blocking communicator on the host.
  bool only_exchanges() const {
    if (error || lacks_memory || !setups.empty() || work.size() != 1) return false;
    const Workload& all = work.front();
    if (all.transfers.empty() || !all.collectives.empty() || !all.puts.empty() || !all.waits.empty() ||
        !all.behind.empty())
      return false;
    Communicator& communicator = *all.communicator;
    return communicator.options().blocking && communicator.on_device() == nullptr &&
           communicator.profiler() == nullptr && made_by.is_this_process();
  }
};

Group& group() {
  thread_local Group instance;
  return instance;
}

template <typename Entries>
std::vector<Subject> subjects_of(const Entries& entries, Subject std::ranges::range_value_t<Entries>::*member) {
  std::vector<Subject> subjects;
  for (const auto& entry : entries)
    if (std::find(subjects.begin(), subjects.end(), entry.*member) == subjects.end()) subjects.push_back(entry.*member);
  return subjects;
}

// The rank, or its process, lacks something that other ranks may have.
bool is_shortage(const std::exception& error) { return code_of(error) == ErrorCode::system_error; }

void drop_all(std::span<const Setup> setups, const char* why) noexcept {
  for (const Setup& setup : setups) setup.drop(why);
}

void drop_of(std::span<const Setup> setups, const Subject& subject, const char* why) noexcept {
  for (const Setup& setup : setups)
    if (setup.subject == subject) setup.drop(why);
}

// Other ranks may come to the setups behind one that fails here.
void run_in_order(std::span<const Setup> setups, const Subject& subject) {
  std::size_t begun = 0;
  try {
    while (begun < setups.size())
      if (const Setup& setup = setups[begun++]; setup.subject == subject) setup.run();
  } catch (const std::exception& error) {
    drop_of(setups.subspan(begun), subject, cause_of(error));
    throw;
  }
}

// The first call allocates.
const Error& lack_of_memory() {
  static const auto* const error = new Error(ErrorCode::system_error, kOutOfMemory);
  return *error;
}

template <typename Action>
std::optional<Error> error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return lack_of_memory();
  } catch (const std::exception& error) {
    return Error(ErrorCode::system_error, error.what());
  }
  return std::nullopt;
}

// What the outermost end of a group makes, or one setup alone.
struct SetupRun {
  std::vector<Setup> setups;
  std::vector<Subject> subjects;
  std::vector<std::optional<Error>> errors{};  // by subject
  std::vector<std::thread> threads{};          // of the subjects behind the first
  bool begun = false;

  explicit SetupRun(std::vector<Setup>& all) : subjects(subjects_of(all, &Setup::subject)), errors(subjects.size()) {
    threads.reserve(subjects.size());
    lack_of_memory();         // so that error_of() needs no memory
    setups = std::move(all);  // last: until then the caller has them
  }
};

// Every rank's setup blocks until the other ranks have come, so each subject needs a thread of its own.
void run_setups(SetupRun& all) {
  all.begun = true;
  const std::vector<Subject>& subjects = all.subjects;
  std::vector<std::thread>& threads = all.threads;
  const auto run_one = [&](std::size_t i) {
    std::optional<Error>& error = all.errors[i];
    error = error_of([&] { run_in_order(all.setups, subjects[i]); });
    if (error && !subjects[i]->options().blocking) subjects[i]->record_failure(*error);
  };
  std::optional<Error> no_thread = error_of([&] {
    for (std::size_t i = 1; i < subjects.size(); ++i) threads.push_back(start_thread([&, i] { run_one(i); }));
  });
  if (!no_thread) run_one(0);
  // Setups that have begun wait for the other subjects.
  for (std::size_t i = 0; no_thread && i < subjects.size(); ++i)
    if (i == 0 || i > threads.size()) drop_of(all.setups, subjects[i], no_thread->what());
  for (std::thread& thread : threads) thread.join();
  if (no_thread) throw Error(*no_thread);
  for (const auto& error : all.errors)
    if (error) throw Error(*error);
}

void check_blocking_alike(const std::vector<Subject>& subjects) {
  for (const Subject& subject : subjects)
    if (subject->options().blocking != subjects.front()->options().blocking)
      fail(ErrorCode::invalid_argument,
           "one group holds blocking and non-blocking communicators: give all the same `blocking` in their config");
}

bool any_failed(const std::vector<Subject>& subjects) {
  return std::any_of(subjects.begin(), subjects.end(),
                     [](const Subject& subject) { return subject->lifecycle().failed(); });
}

// The calling thread itself enqueues calls on devices: enqueueing waits for no rank, and the thread may have a default
// stream of its own.
bool all_on_devices(const std::vector<Subject>& subjects) {
  return std::all_of(subjects.begin(), subjects.end(),
                     [](const Subject& subject) { return subject->on_device() != nullptr; });
}

// Runs `action` now, or in the background if the communicators are non-blocking; then a failure is recorded in them.
Completion run(const std::vector<Subject>& subjects, std::function<void()> action) {
  const NoCancellation uncancelled;
  check_blocking_alike(subjects);
  if (subjects.front()->options().blocking) {
    action();
    return Completion::done;
  }
  lack_of_memory();  // so that error_of() needs no memory
  // The communicators know the job before it begins: an abort() from now on waits for the job's end.
  const std::shared_ptr<Job> job = Job::prepare();
  for (const Subject& subject : subjects) {
    subject->lifecycle().forget_failed_attempt();
    subject->lifecycle().background().begin(job);
  }
  const auto not_begun = error_of([&] {
    job->begin([subjects, action = std::move(action)] {
      if (const auto error = error_of(action); error && !any_failed(subjects))
        for (const Subject& subject : subjects) subject->record_failure(*error);
      for (const Subject& subject : subjects) subject->lifecycle().background().end();
    });
  });
  if (not_begun) {
    for (const Subject& subject : subjects) subject->lifecycle().background().end();
    throw Error(*not_begun);
  }
  return Completion::in_progress;
}

Completion run_all(std::vector<Setup> setups) {
  std::shared_ptr<SetupRun> all;
  try {
    all = std::make_shared<SetupRun>(setups);
    return run(all->subjects, [all] { run_setups(*all); });
  } catch (const std::exception& error) {
    // Where run() throws, this thread alone may have begun.
    if (is_shortage(error) && !all) drop_all(setups, cause_of(error));
    if (is_shortage(error) && all && !all->begun) drop_all(all->setups, cause_of(error));
    throw;
  }
}

Completion run_calls(const std::vector<Subject>& subjects, std::function<void()> action) {
  check_blocking_alike(subjects);
  if (!all_on_devices(subjects)) return run(subjects, std::move(action));
  action();
  return Completion::done;
}

// Of a device, whose work a call on the host has to come after.
bool is_foreign(Communicator& communicator, StreamHandle stream) {
  constexpr std::uintptr_t kPerThreadDefault = 2;
  return reinterpret_cast<std::uintptr_t>(stream) > kPerThreadDefault && communicator.on_device() == nullptr;
}

// `add` puts the request into what its communicator has to do: of the open group, or at once.
template <typename Add>
[[gnu::cold]] Completion submit_work(const Subject& communicator, StreamHandle stream, Add add) {
  const NoCancellation uncancelled;
  std::optional<gpu::ForeignStream> behind;
  if (is_foreign(*communicator, stream)) behind.emplace(stream);
  const auto fill = [behind, add = std::move(add)](Workload& work) {
    if (behind) work.behind.push_back(*behind);
    add(work);
  };
  if (in_group()) {
    fill(group().of(communicator));
    return Completion::done;
  }
  return run_calls({communicator}, [communicator, fill] {
    std::vector<Workload> work(1);
    work.front().communicator = communicator;
    fill(work.front());
    drive(work);
  });
}

void check_rank(const Communicator& communicator, Rank rank, const char* what) {
  if (rank < 0 || rank >= communicator.ranks())
    fail(ErrorCode::invalid_argument, "rank {}: {} {} is not a rank of 0..{}", communicator.rank(), what, rank,
         communicator.ranks() - 1);
}

// NCCL's names of families whose members depend on the links.
void name_planner(std::string& algorithm, bool named_links) {
  if (algorithm == "tree" || algorithm == "trees") algorithm = named_links ? "trees" : "binomial";
  if (algorithm == "pat" && !named_links) algorithm = "recursive";
}

bool can_serve(Communicator& communicator, const CollectiveRequest& request, const std::string& algorithm) {
  if (communicator.on_host() != nullptr)
    return communicator.on_host()->chooser().can_serve(algorithm, request.collective, request.root);
  return communicator.on_device()->chooser().can_serve(algorithm, request.collective, request.root);
}

void settle_algorithm(Communicator& communicator, const CollectiveRequest& request, CallOptions& options) {
  std::string& algorithm = options.wish.algorithm;
  if (algorithm.empty()) return;
  const std::string asked = algorithm;
  name_planner(algorithm, communicator.membership().links.named);
  if (can_serve(communicator, request, algorithm)) return;
  if (options.must)
    fail(
        ErrorCode::invalid_usage,
        "rank {}: {} by algorithm {} cannot be had on these links: name another (sccl explain lists those that serve), "
        "or set forceAlgSelection to 0",
        communicator.rank(), info(request.collective).call_name, asked);
  log::info(log::Subsystem::tuning, "rank {}: {} by algorithm {} cannot be had on these links; the usual choice serves",
            communicator.rank(), info(request.collective).call_name, asked);
  algorithm.clear();
}

// What the tuner plugin wishes for such calls stands where the call itself says nothing.
void add_usual_wish(const CallWish& usual, CallWish& wish) {
  if (wish.algorithm.empty()) wish.algorithm = usual.algorithm;
  if (wish.protocol == ProtocolChoice::automatic) wish.protocol = usual.protocol;
  if (wish.slice_bytes == 0) wish.slice_bytes = usual.slice_bytes;
}

// The options with which the request can be served. Throws where an algorithm that must serve, or an event, cannot be
// had; no rank has been told of the call by then, and ranks that ask alike get the same answer.
CallOptions settled(Communicator& communicator, const CollectiveRequest& request, CallOptions options) {
  if (options.launched != nullptr) {
    if (communicator.on_device() == nullptr)
      fail(ErrorCode::invalid_usage,
           "rank {}: config.launchCompletionEvent needs a device, and this communicator is one of the host platform, "
           "where nothing is launched: leave it NULL",
           communicator.rank());
    communicator.on_device()->check_launch_events();
  }
  if (communicator.ranks() == 1) options.wish = {};
  settle_algorithm(communicator, request, options);
  if (const CallWish* const usual = communicator.membership().wish_of(request);
      usual != nullptr && !options.wish.empty())
    add_usual_wish(*usual, options.wish);
  return options;
}

// What the outermost end has to do; nothing at an inner one.
std::optional<Group> close_group() {
  if (depth == 0) fail(ErrorCode::invalid_usage, "ncclGroupEnd without ncclGroupStart: pair the calls");
  if (--depth > 0) return std::nullopt;
  Group closed = std::exchange(group(), Group{});
  if (!closed.made_by.is_this_process())
    fail(ErrorCode::invalid_usage,
         "the group was begun before this process was forked (fork) and belongs to its parent: begin one here");
  const char* const shortage = closed.lacks_memory                          ? kOutOfMemory
                               : closed.error && is_shortage(*closed.error) ? closed.error->what()
                                                                            : nullptr;
  if (shortage != nullptr) drop_all(closed.setups, shortage);
  if (closed.error) throw Error(*closed.error);
  if (closed.lacks_memory)
    fail(ErrorCode::system_error, "a call of this group ran out of memory, and none of its calls is made: free some");
  if (!closed.setups.empty() && !closed.work.empty())
    fail(ErrorCode::invalid_usage, "one group holds both init of communicators and communication: use two groups");
  return closed;
}

// Without allocation: programs exchange often.
Completion exchange(Group& closed) {
  const Subject communicator = std::move(closed.work.front().communicator);
  std::vector<PointToPointRequest> transfers = std::move(closed.work.front().transfers);
  closed.work.clear();
  drive(*communicator, transfers);
  transfers.clear();
  closed.spare = std::move(transfers);
  return Completion::done;
}

}  // namespace

void group_start() {
  if (depth++ == 0) group().made_by = ProcessMark::of_this_process();
}

bool in_group() { return depth > 0; }

void group_fail(const Error& error) {
  if (in_group() && !group().error) group().error = error;
}

void group_lacks_memory() noexcept {
  if (in_group()) group().lacks_memory = true;
}

Completion group_end() {
  if (depth == 1 && group().only_exchanges()) {
    depth = 0;
    return exchange(group());
  }
  std::optional<Group> closed = close_group();
  if (closed && !closed->setups.empty()) return run_all(std::move(closed->setups));
  if (closed && !closed->work.empty()) {
    // Before any call of the group: what is refused at the end, like an error before, drops the whole group.
    for (const Workload& work : closed->work) check_windows(work);
    const auto subjects = subjects_of(closed->work, &Workload::communicator);
    return run_calls(subjects, [work = std::move(closed->work)]() mutable { drive(work); });
  }
  return Completion::done;
}

std::vector<Workload> group_discard() {
  std::optional<Group> closed = close_group();
  if (!closed) return {};
  if (!closed->setups.empty())
    fail(ErrorCode::invalid_usage,
         "the making of communicators cannot be simulated: end such a group with ncclGroupEnd");
  return std::move(closed->work);
}

Completion submit_setup(Setup setup) {
  std::vector<Setup> alone;
  try {
    (in_group() ? group().setups : alone).push_back(std::move(setup));
  } catch (const std::bad_alloc&) {
    setup.drop(kOutOfMemory);
    throw;
  }
  return in_group() ? Completion::done : run_all(std::move(alone));
}

Completion submit_setup(const Subject& subject, std::function<void()> setup) {
  return submit_setup(Setup{subject, std::move(setup)});
}

Completion submit_init(const Subject& communicator) {
  constexpr auto kTell = [](Communicator& subject, const GiveUp&, const char* why) noexcept {
    subject.fail_to_connect(why);
  };
  return submit_setup(communicator, GiveUp{kTell},
                      [&] { return std::function<void()>([communicator] { communicator->connect(); }); });
}

Completion submit(const Subject& communicator, const CollectiveRequest& request) {
  communicator->lifecycle().check_usable();
  if (info(request.collective).rooted) check_rank(*communicator, request.root, "root");
  if (is_foreign(*communicator, request.stream))
    return submit_work(communicator, request.stream,
                       [request](Workload& work) { work.collectives.push_back(request); });
  if (in_group()) {
    group().of(communicator).collectives.push_back(request);
    return Completion::done;
  }
  if (!communicator->options().blocking)
    return run_calls({communicator}, [communicator, request] { drive(*communicator, request); });
  drive(*communicator, request);
  return Completion::done;
}

Completion submit(const Subject& communicator, const CollectiveRequest& request, const CallOptions& options) {
  communicator->lifecycle().check_usable();
  if (info(request.collective).rooted) check_rank(*communicator, request.root, "root");
  return submit_work(communicator, request.stream,
                     [request, options = settled(*communicator, request, options)](Workload& work) {
                       work.asked.push_back({work.collectives.size(), options});
                       work.collectives.push_back(request);
                     });
}

Completion submit(const Subject& communicator, const PointToPointRequest& request) {
  communicator->lifecycle().check_usable();
  check_rank(*communicator, request.peer, "peer");
  if (is_foreign(*communicator, request.stream))
    return submit_work(communicator, request.stream, [request](Workload& work) { work.transfers.push_back(request); });
  if (in_group()) {
    group().of(communicator).transfers.push_back(request);
    return Completion::done;
  }
  return run_calls({communicator}, [communicator, request] {
    std::vector<Workload> work;
    work.emplace_back().communicator = communicator;
    work.front().transfers.push_back(request);
    drive(work);
  });
}

Completion submit(const Subject& communicator, const PutRequest& request) {
  communicator->lifecycle().check_usable();
  return submit_work(communicator, request.stream, [request](Workload& work) { work.puts.push_back(request); });
}

Completion submit(const Subject& communicator, std::vector<SignalWait> waits, StreamHandle stream) {
  communicator->lifecycle().check_usable();
  return submit_work(communicator, stream, [waits = std::move(waits), stream](Workload& work) {
    work.waits.insert(work.waits.end(), waits.begin(), waits.end());
    if (!waits.empty()) work.wait_streams.push_back(stream);
  });
}

}  // namespace sccl::runtime
