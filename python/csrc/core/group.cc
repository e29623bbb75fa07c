#include "group.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>

#include "hosts.h"
#include "library.h"

namespace sccl_torch {
namespace {

constexpr std::uint64_t kDisagreementTag = 1ull << 62;
constexpr std::uint64_t kBarrierTag = 1ull << 61;
constexpr Milliseconds kExchangePatience{300};
constexpr Milliseconds kShutDownPatience{2000};
constexpr std::size_t kTextBytes = 512;  // within a frame

// Forks of this process: a group belongs to the process that made it.
std::atomic<std::uint64_t> forks{0};
void count_fork() { forks.fetch_add(1, std::memory_order_relaxed); }
void watch_forks() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, count_fork);
  (void)registered;
}

FailureKind kind_of(int result) {
  switch (result) {
    case ncclRemoteError:
      return FailureKind::peer;
    case ncclInvalidArgument:
    case ncclInvalidUsage:
      return FailureKind::usage;
    case ncclTimeout:
      return FailureKind::timeout;
    default:
      return FailureKind::system;
  }
}

std::string library_text(int result) {
  const char* told = library().GetLastError(nullptr);
  if (told != nullptr && *told != '\0') return told;
  return library().GetErrorString(static_cast<ncclResult_t>(result));
}

}  // namespace

std::string text_of(const Call& call) {
  std::string text = call.name;
  if (call.sizes == nullptr) return text;
  text += std::string(" of ") + name_of(call.element) + " [";
  for (std::size_t i = 0; i < call.dimensions; ++i) text += (i == 0 ? "" : ", ") + std::to_string(call.sizes[i]);
  return text + "]";
}

std::unique_ptr<Group> Group::create(Rendezvous& rendezvous, int rank, int ranks, Milliseconds timeout,
                                     const std::string& name) {
  watch_forks();
  const Library& sccl = library();
  const auto make_id = [&] {
    ncclUniqueId id;
    if (const int result = sccl.GetUniqueId(&id); result != 0) throw Failure(kind_of(result), library_text(result));
    const Secret secret = random_secret();
    return std::string(id.internal, sizeof id.internal) +
           std::string(reinterpret_cast<const char*>(&secret), sizeof secret);
  };
  std::unique_ptr<Messages> messages;
  const auto listen = [&](const std::string& nonce) {
    messages = std::make_unique<Messages>("sccl-" + nonce, rank, ranks);
  };
  const Invited invited = meet(rendezvous, rank, ranks, timeout, name, make_id, listen);
  ncclUniqueId id;
  Secret secret;
  if (invited.invitation.size() != sizeof id.internal + sizeof secret)
    throw Failure(FailureKind::usage,
                  "rank 0 of group " + name + " has another version of this package: install one version on all hosts");
  std::memcpy(id.internal, invited.invitation.data(), sizeof id.internal);
  std::memcpy(&secret, invited.invitation.data() + sizeof id.internal, sizeof secret);
  ncclComm* communicator = nullptr;
  if (const int result = sccl.CommInitRank(&communicator, ranks, id, rank); result != 0)
    throw Failure(kind_of(result),
                  "group " + name + " cannot be made on rank " + std::to_string(rank) + ": " + library_text(result));
  std::unique_ptr<Group> group(new Group(communicator, rank, ranks, invited.name, secret, name));
  group->messages_ = std::move(messages);
  tell_places(*group, secret, timeout);
  return group;
}

Group::Group(ncclComm* communicator, int rank, int ranks, const std::string& nonce, const Secret& secret,
             const std::string& name)
    : rank_(rank),
      ranks_(ranks),
      name_(name),
      nonce_(nonce),
      secret_(secret),
      forks_(forks.load(std::memory_order_relaxed)),
      communicator_(communicator),
      callbacks_(std::make_unique<Callbacks>()),
      watched_(std::make_unique<Watched>([this](std::uint64_t number) { expire(number); })),
      queue_(std::make_unique<Queue>()) {}

// A forked child has copies of memory, but neither the threads nor the peers: it leaves everything as it is.
Group::~Group() {
  if (forked()) {
    (void)callbacks_.release();
    (void)messages_.release();
    (void)watched_.release();
    (void)queue_.release();
    return;
  }
  shut_down();
  queue_.reset();
  watched_.reset();
  messages_.reset();
}

bool Group::forked() const { return forks.load(std::memory_order_relaxed) != forks_; }

void Group::check_usable() const {
  if (forked())
    throw Failure(FailureKind::usage, "group " + name_ +
                                          " was made before this process was forked, and serves the parent only: call "
                                          "init_process_group after the fork, or start processes by spawn");
  if (!stopped_.load(std::memory_order_acquire)) return;  // pairs with stop()
  const std::lock_guard<std::mutex> lock(stop_mutex_);
  throw Failure(stop_kind_, stop_reason_);
}

std::uint64_t Group::begin(const Call& call) {
  check_usable();
  {
    const std::lock_guard<std::mutex> lock(running_mutex_);
    running_ = &call;
    ++calls_;
  }
  watched_->arm(calls_, Clock::now() + call.timeout);
  return calls_;
}

void Group::end() {
  watched_->disarm();
  const std::lock_guard<std::mutex> lock(running_mutex_);
  running_ = nullptr;
}

void Group::expire(std::uint64_t number) {
  std::string reason;
  {
    const std::lock_guard<std::mutex> lock(running_mutex_);
    if (running_ == nullptr || number != calls_) return;
    reason = "Timed out waiting " + std::to_string(running_->timeout.count()) + "ms for " + text_of(*running_) +
             " to complete (call " + std::to_string(number) + " of group " + name_ + ", rank " + std::to_string(rank_) +
             " of " + std::to_string(ranks_) +
             "): some rank did not make this call, or not in time: see what the others do, or raise the timeout";
  }
  stop(FailureKind::timeout, reason);
}

void Group::fail(const Call& call, std::uint64_t number, int result) {
  const std::string told = library_text(result);  // before anything else can fail
  if (stopped_.load(std::memory_order_acquire)) check_usable();
  const std::string others = kind_of(result) == FailureKind::usage ? what_others_called(call, number) : "";
  throw Failure(kind_of(result), text_of(call) + " failed on rank " + std::to_string(rank_) + " of group " + name_ +
                                     " (call " + std::to_string(number) + "): " + told + others);
}

// The library tells counts; the ranks tell each other the shapes, as long as all of them have failed.
std::string Group::what_others_called(const Call& call, std::uint64_t number) {
  const auto until = Clock::now() + kExchangePatience;
  char mine[kTextBytes] = {};
  std::strncpy(mine, text_of(call).c_str(), sizeof mine - 1);
  std::vector<std::vector<char>> texts(static_cast<std::size_t>(ranks_), std::vector<char>(kTextBytes));
  std::vector<std::shared_ptr<Transfer>> arriving(static_cast<std::size_t>(ranks_));
  const std::uint64_t tag = kDisagreementTag | number;
  for (int other = 0; other < ranks_; ++other) {
    if (other == rank_) continue;
    messages_->send(other, tag, mine, sizeof mine);
    arriving[static_cast<std::size_t>(other)] =
        messages_->receive(other, tag, texts[static_cast<std::size_t>(other)].data(), kTextBytes);
  }
  std::string told;
  for (int other = 0; other < ranks_; ++other) {
    if (other == rank_) continue;
    try {
      messages_->wait(arriving[static_cast<std::size_t>(other)], until, "the others' calls");
    } catch (const Failure&) {
      continue;
    }
    const std::string theirs(texts[static_cast<std::size_t>(other)].data());
    if (theirs != mine) told += "; rank " + std::to_string(other) + " called " + theirs;
  }
  return told.empty() ? told : " [rank " + std::to_string(rank_) + " called " + mine + told + "]";
}

void Group::stop(FailureKind kind, const std::string& reason) {
  ncclComm* ended = nullptr;
  {
    const std::lock_guard<std::mutex> lock(stop_mutex_);
    if (stopped_.load(std::memory_order_relaxed)) return;
    stop_kind_ = kind;
    stop_reason_ = reason;
    stopped_.store(true, std::memory_order_release);  // pairs with check_usable
    ended = communicator_;
  }
  if (ended != nullptr) library().CommAbort(ended);
}

void Group::shut_down() {
  if (stopped_.load(std::memory_order_acquire)) {
    messages_->stop(stop_reason_);
    return;
  }
  if (queue_->wait_idle(kShutDownPatience)) {
    ncclComm* ended = nullptr;
    {
      const std::lock_guard<std::mutex> lock(stop_mutex_);
      if (stopped_.load(std::memory_order_relaxed)) return;
      stop_reason_ = "group " + name_ + " was destroyed: make another one";
      stopped_.store(true, std::memory_order_release);  // pairs with check_usable
      ended = communicator_;
    }
    library().CommDestroy(ended);
  } else {
    stop(FailureKind::stopped,
         "group " + name_ + " was destroyed while calls were under way: wait for their work before");
  }
}

std::unique_ptr<Group> Group::split(int color, int key, Milliseconds timeout, const std::string& name, int new_rank,
                                    int new_ranks) {
  check_usable();
  while (!queue_->try_enter()) queue_->wait_idle(Milliseconds(100));
  const std::string nonce = nonce_ + "." + std::to_string(++splits_) + "." + std::to_string(color);
  std::unique_ptr<Messages> messages;
  ncclComm* made = nullptr;
  try {
    if (color >= 0) messages = std::make_unique<Messages>("sccl-" + nonce, new_rank, new_ranks);
    Call call{"split_group"};
    call.timeout = timeout;
    run(call, [&](ncclComm* communicator) {
      return static_cast<int>(library().CommSplit(communicator, color, key, &made, nullptr));
    });
  } catch (...) {
    queue_->leave();
    throw;
  }
  queue_->leave();
  if (made == nullptr) return nullptr;
  const Secret secret = derived(secret_, nonce.data(), nonce.size());
  std::unique_ptr<Group> group(new Group(made, new_rank, new_ranks, nonce, secret, name));
  group->messages_ = std::move(messages);
  tell_places(*group, secret, timeout);
  return group;
}

void Group::monitored_barrier(Milliseconds timeout, bool name_all) {
  check_usable();
  const std::uint64_t tag = kBarrierTag | ++barriers_;
  const auto began = Clock::now();
  const auto deadline = began + timeout;
  char here = 0;
  if (rank_ != 0) {
    char verdict[kTextBytes] = {};
    try {
      messages_->wait(messages_->send(0, tag, &here, 1), deadline, "monitoredBarrier");
      // Rank 0 tells who is missing only when its own time is over.
      messages_->wait(messages_->receive(0, tag, verdict, sizeof verdict), deadline + kExchangePatience,
                      "monitoredBarrier");
    } catch (const Failure& failure) {
      std::snprintf(verdict, sizeof verdict, "%s", failure.what());
    }
    if (verdict[0] == '\0') return;
    throw Failure(FailureKind::timeout,
                  "Rank " + std::to_string(rank_) +
                      " successfully reached monitoredBarrier, but received errors while waiting for "
                      "send/recv from rank 0. Please check rank 0 logs for faulty rank. (" +
                      verdict + ")");
  }
  std::vector<std::string> failed;
  std::string hosts;  // of those that are not on this one
  std::vector<std::shared_ptr<Transfer>> arriving(static_cast<std::size_t>(ranks_));
  std::vector<char> there(static_cast<std::size_t>(ranks_));
  for (std::size_t rank = 1; rank < there.size(); ++rank)
    arriving[rank] = messages_->receive(static_cast<int>(rank), tag, &there[rank], 1);
  std::string verdict;
  const auto waited = [&] { return " in " + std::to_string(timeout.count()) + " ms"; };
  if (timeout.count() <= 0)
    verdict = "Rank 0 timed out in monitoredBarrier after " + std::to_string(timeout.count()) + " ms.";
  for (std::size_t rank = 1; rank < there.size(); ++rank) {
    const bool given_up = !verdict.empty();
    try {
      messages_->wait(arriving[rank], given_up ? began : deadline, "monitoredBarrier");
    } catch (const Failure&) {
      if (given_up) continue;
      failed.push_back(std::to_string(rank));
      if (const std::string who = messages_->who(static_cast<int>(rank)); who != "rank " + failed.back())
        hosts += (hosts.empty() ? " (" : ", ") + who;
      if (!name_all) verdict = "Rank " + failed.back() + " failed to pass monitoredBarrier" + waited();
    }
  }
  if (verdict.empty() && !failed.empty()) {
    verdict = failed.size() == 1 ? "Rank " : "Ranks ";
    for (std::size_t i = 0; i < failed.size(); ++i) verdict += (i == 0 ? "" : ", ") + failed[i];
    verdict += " failed to pass monitoredBarrier" + waited();
  }
  if (!hosts.empty()) verdict += hosts + ")";
  char told[kTextBytes] = {};
  std::strncpy(told, verdict.c_str(), sizeof told - 1);
  for (int rank = 1; rank < ranks_; ++rank) messages_->send(rank, tag, told, sizeof told);
  if (!verdict.empty()) throw Failure(FailureKind::timeout, verdict);
}

}  // namespace sccl_torch
