// One poll loop over the listening sockets and all connections. No step blocks on a single connection, so a stranger
// that sends anything, or nothing, costs only one entry of the loop until the stranger's deadline.
#include "runtime/bootstrap/meeting/root.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>

#include "base/os/out_of_memory.h"
#include "base/os/thread.h"
#include "base/settings/log.h"
#include "runtime/bootstrap/meeting/first_root.h"
#include "runtime/bootstrap/sockets/socket.h"

namespace sccl::runtime {
namespace {

using namespace wire;

constexpr std::chrono::seconds kHandshakeLimit{5};
// For ranks to receive the last messages, such as an error.
constexpr std::chrono::milliseconds kLastWordsLimit{1000};
// After a failure, the root tells late ranks the reason for this long.
constexpr std::chrono::seconds kAfterFailure{10};
// A leader that has found no root tells the other ranks of its host for this long.
constexpr std::chrono::seconds kAfterRefusal{2};
// So long after a failure a process that ends waits for late ranks, to which its root tells the reason.
constexpr std::chrono::seconds kExitWait{2};
// The oldest stranger is dropped for a new one, so that a flood of connections keeps ranks out only while it lasts.
constexpr std::size_t kMostStrangers = 512;
// A limit per turn, so that a flood of connections leaves time for the ranks that have come.
constexpr int kMostAcceptedATurn = 64;
constexpr int kBriefPauseMs = 20;
// A process that knows the secret may still announce a wrong number of ranks, which would cost the root memory and
// time.
constexpr int kMostRanks = 1 << 20;
constexpr const char* kLost =
    " was not heard of during init for longer than SCCL_HOST_TIMEOUT_MS: look whether its host runs and reaches this "
    "one";

// Strangers may use a quarter of the descriptors that this process may have.
std::size_t stranger_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kMostStrangers;
  return std::clamp<std::size_t>(limit.rlim_cur / 4, 1, kMostStrangers);
}

// How many nodes of each meeting run in this process, and how many have failed and wait for late ranks alone. A forked
// child has none of them.
class NodesHere {
 public:
  // Never destroyed: threads of roots may outlive static destruction.
  static NodesHere& of_process() {
    static auto* const instance = new NodesHere;
    return *instance;
  }

  // Without the lock where the token is made: it takes the lock when it goes, even at once for lack of memory.
  std::shared_ptr<void> enter(std::uint64_t meeting) {
    {
      const std::lock_guard lock(mutex_);
      ++counts_[{::getpid(), meeting}];
    }
    return {nullptr, [this, meeting](void*) { leave(meeting); }};
  }
  // The caller's node has told its failure to all ranks that came. When this process ends before the returned token has
  // gone, it waits.
  std::shared_ptr<void> wait_for_late_ranks(std::chrono::steady_clock::time_point failed) {
    static const pid_t owner = ::getpid();
    [[maybe_unused]] static const int registered = std::atexit([] {
      if (::getpid() == owner) of_process().await_late_ranks();
    });
    const auto entry = [&] {
      const std::lock_guard lock(mutex_);
      return late_.emplace(::getpid(), failed + kExitWait);
    }();
    return {nullptr, [this, entry](void*) {
              const std::lock_guard relock(mutex_);
              late_.erase(entry);
              changed_.notify_all();
            }};
  }
  bool await_none(std::uint64_t meeting, std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return counts_.count({::getpid(), meeting}) == 0; });
  }

 private:
  void leave(std::uint64_t meeting) {
    const std::lock_guard lock(mutex_);
    const auto at = counts_.find({::getpid(), meeting});
    if (at != counts_.end() && --at->second == 0) counts_.erase(at);
    changed_.notify_all();
  }

  void await_late_ranks() {
    std::unique_lock lock(mutex_);
    const auto last = [&] {
      auto until = std::chrono::steady_clock::time_point::min();
      for (const auto& [process, end] : late_)
        if (process == ::getpid()) until = std::max(until, end);
      return until;
    };
    while (last() > std::chrono::steady_clock::now()) changed_.wait_until(lock, last());
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<pid_t, std::uint64_t>, int> counts_;
  std::multimap<pid_t, std::chrono::steady_clock::time_point> late_;
};

Arrival arrival_of(const Join& join) { return {join.rank, join.ranks, join.ids_hash, join.host}; }

bool is_rank_of(std::int32_t rank, std::int32_t ranks) {
  return ranks >= 1 && ranks <= kMostRanks && rank >= 0 && rank < ranks;
}

std::string text_of(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

}  // namespace

Root::Root(RootSetup setup)
    : setup_(std::move(setup)), most_strangers_(stranger_limit()), tree_(std::max(setup_.width, 1)) {
  presences_.push_back(NodesHere::of_process().enter(instance_));
}

void Root::lead(LeaderSetup leader) {
  above_ = std::move(leader.above);
  presences_.push_back(NodesHere::of_process().enter(instance()));
  adopt(std::move(leader.own), "this process");
  Link& link = links_.back();
  link.stage = Stage::member;
  link.join.rank = leader.arrival.rank;
  link.join.ranks = leader.arrival.ranks;
  link.join.ids_hash = leader.arrival.ids_hash;
  link.join.host = leader.arrival.host;
  note_arrivals(link, bytes_of(leader.arrival));
}

std::string Root::Link::title() const {
  switch (join.joiner) {
    case Joiner::rank:
    case Joiner::orphan:
      return fmt::format("rank {} ({})", join.rank, peer);
    case Joiner::leader:
      return fmt::format("rank {} ({}), through which the ranks of its host met,", join.rank, peer);
    case Joiner::root:
      return fmt::format("the root of unique id {} of {} ({})", join.rank + 1, join.id_count, peer);
  }
  return "";
}

void Root::serve() {
  last_activity_ = Clock::now();
  while (!finished()) {
    wait();
    turn();
    // At a fixed address, a rank that connects after all ranks have come is early for the next communicator. The rank
    // must find no root here, so that it tries again.
    if (setup_.succession && attendance_.is_complete()) stop_listening();
    for (const FileDescriptor& listener : setup_.listeners) accept_all(listener);
    // Once all ranks that came have been told of a failure, ranks of this process need not wait for this node any more.
    // Only the end of the process waits, for ranks that are still to come.
    const auto listens = [](const Link& link) { return link.listens(); };
    if (failure_ && !presences_.empty() && !finished() && std::none_of(links_.begin(), links_.end(), listens)) {
      if (!setup_.listeners.empty()) late_ranks_ = NodesHere::of_process().wait_for_late_ranks(failure_->at);
      presences_.clear();
    }
    // Orders nothing; set by FixedRoots.
    const bool succeeded = setup_.succession && setup_.succession->load(std::memory_order_relaxed);
    const auto tells_for = setup_.leader >= 0 && !above_ ? kAfterRefusal : kAfterFailure;
    if (failure_ && (succeeded || Clock::now() - failure_->at > tells_for)) break;
    if (Clock::now() - last_activity_ > setup_.idle_limit * (above_ ? 2 : 1)) {
      fail_all(ErrorCode::system_error, attendance_.missing_text());
      break;
    }
  }
  // Close the listeners before any rank learns that this root ends: the next root may then open at this address.
  setup_.listeners.clear();
  if (above_) above_->post(Kind::leave, {});
  if (above_) above_->flush();
  const Deadline limit = Deadline::in(kLastWordsLimit);
  for (Link& link : links_) link.frames.send_all(limit);
}

void Root::stop_listening() {
  if (setup_.listeners.empty()) return;
  setup_.listeners.clear();
  for (Link& link : links_)
    if (link.is_stranger()) refuse(link, "it came when all ranks had come");
  drop_broken();
}

void Root::adopt(FileDescriptor socket, std::string peer) {
  const auto strangers = static_cast<std::size_t>(
      std::count_if(links_.begin(), links_.end(), [](const Link& link) { return link.is_stranger(); }));
  if (strangers >= most_strangers_) drop_oldest_stranger("too many strangers");
  links_.emplace_back();
  links_.back().frames = FrameLink(std::move(socket));
  links_.back().peer = std::move(peer);
}

void Root::turn() {
  for (Link& link : links_) pump(link);
  drop_broken();
  if (above_) hear_above();
  for (Link& link : links_) link.frames.send();
}

bool Root::finished() const {
  if (above_) return left_ >= above_->came() && (above_->is_settled() || failure_);
  return attendance_.ranks() > 0 && left_ >= attendance_.ranks();
}

void Root::wait() {
  std::vector<pollfd> entries;
  // Without a free descriptor the listeners would always be ready, and the loop would spin.
  if (!starved_)
    for (const FileDescriptor& listener : setup_.listeners) entries.push_back({listener.get(), POLLIN, 0});
  for (const Link& link : links_) entries.push_back(link.frames.poll_entry());
  if (above_ && !above_->is_broken()) entries.push_back(above_->poll_entry());
  const bool awaits_successor = setup_.succession && failure_;
  ::poll(entries.data(), entries.size(), starved_ || awaits_successor ? kBriefPauseMs : 200);
  starved_ = false;
}

void Root::accept_all(const FileDescriptor& listener) {
  for (int accepted = 0; accepted < kMostAcceptedATurn; ++accepted) {
    Address address;
    address.length = sizeof address.storage;
    FileDescriptor socket(::accept4(listener.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.length,
                                    SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      starved_ = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (starved_) drop_oldest_stranger("no descriptor is free");
      return;
    }
    prepare_connection(socket.get(), host_timeout());
    adopt(std::move(socket), address.text());
  }
}

// Reads the data that has arrived before it drops a link: a rank whose introduction has arrived is no stranger, and
// would have to search again.
void Root::drop_oldest_stranger(const char* why) {
  for (auto link = links_.begin(); link != links_.end(); ++link) {
    if (!link->is_stranger()) continue;
    pump(*link);
    if (!link->is_stranger()) continue;
    if (!link->frames.is_broken()) refuse(*link, why);
    links_.erase(link);
    return;
  }
}

void Root::refuse(Link& link, const char* why) {
  link.frames.drop();
  log::info(log::Subsystem::bootstrap, "bootstrap: dropped a connection from {}: {}", link.peer, why);
}

void Root::pump(Link& link) {
  // A stranger may send no more than an introduction.
  std::size_t most = sizeof(Hello) + sizeof(Join);
  if (!link.is_stranger()) most = std::size_t{kMostFrameBytes} + sizeof(Header);
  if (!link.is_stranger() && link.speaks_for_ranks()) most *= static_cast<std::size_t>(link.join.ranks);
  const bool was_broken = link.frames.is_broken();
  const bool came = !was_broken && link.frames.receive(most);
  if (came && link.stage == Stage::member) last_activity_ = Clock::now();
  if (!was_broken)  // messages that arrived before the end are still handled
    while (advance(link)) {
    }
  if (link.is_stranger() && !link.frames.is_broken() && Clock::now() - link.since > kHandshakeLimit)
    refuse(link, "it did not introduce itself in time");
  link.frames.send();
}

bool Root::advance(Link& link) {
  switch (link.stage) {
    case Stage::hello:
      return take_hello(link);
    case Stage::join:
      return take_join(link);
    case Stage::member:
    case Stage::redirected: {
      const std::uint64_t ranks = link.speaks_for_ranks() ? static_cast<std::uint64_t>(link.join.ranks) : 1;
      const auto frame = link.frames.take_frame(kMostFrameBytes * ranks);
      if (frame) handle(link, *frame);
      return frame.has_value();
    }
    case Stage::left:
      link.frames.discard();
      return false;
  }
  return false;
}

bool Root::take_hello(Link& link) {
  Hello hello;
  if (!link.frames.take(hello)) return false;
  if (hello.tag != kTag) {
    refuse(link, "it speaks another protocol");
    link.frames.discard();
    return false;
  }
  link.nonce = make_nonce();
  const Proof proof{prove(setup_.secret, hello.nonce, Role::root), link.nonce, instance()};
  link.frames.post(Bytes(bytes_of(proof).begin(), bytes_of(proof).end()));
  link.stage = Stage::join;
  return true;
}

bool Root::take_join(Link& link) {
  if (!link.frames.peek(static_cast<JoinHead&>(link.join))) return false;
  const bool is_known = link.join.mac == prove(setup_.secret, link.nonce, Role::rank);
  if (is_known && link.join.version != libsccl_version()) {
    const std::string text = versions_text(link.join, libsccl_version());
    link.stage = Stage::left;  // the rest of the introduction is discarded
    const Welcome welcome{instance(), setup_.leader};
    link.frames.post(frame(Kind::welcome, bytes_of(welcome)));
    link.frames.post(frame(Kind::error, error_of(static_cast<std::int32_t>(ErrorCode::invalid_usage), text)));
    fail_all(ErrorCode::invalid_usage, text);
    return true;
  }
  if (!link.frames.take(link.join)) return false;
  const Join& join = link.join;
  const bool is_sound = join.joiner == Joiner::root ? is_rank_of(join.rank, static_cast<std::int32_t>(join.id_count)) &&
                                                          is_rank_of(0, join.ranks)
                                                    : is_rank_of(join.rank, join.ranks);
  if (!is_known || !is_sound || join.joiner > Joiner::orphan) {
    refuse(link, is_known ? "it is no rank of its own communicator" : "it does not know the unique id's secret");
    link.frames.discard();
    return false;
  }
  const std::string host = text_of(join.host);
  link.peer = setup_.leader >= 0 ? "host " + host : fmt::format("{} on {}", link.peer, host);
  last_activity_ = Clock::now();
  if (join.id_number > 0 && !above_ && !failure_) join_first(link);
  // A leader of a host asks nobody to join another one.
  const bool leads = above_ && above_->welcome().leader >= 0;
  if (join.joiner == Joiner::leader && !leads && !failure_)
    if (const auto redirect = tree_.add(join.rank, join.place)) {
      link.stage = Stage::redirected;
      link.frames.post(frame(Kind::redirect, bytes_of(*redirect)));
      return true;
    }
  admit(link);
  return true;
}

void Root::admit(Link& link) {
  link.stage = Stage::member;
  const Welcome welcome{instance(), setup_.leader};
  link.frames.post(frame(Kind::welcome, bytes_of(welcome)));
  if (failure_)
    link.frames.post(failure_->frame);
  else if (link.join.joiner == Joiner::rank)
    note_arrivals(link, bytes_of(arrival_of(link.join)));
}

void Root::note_arrivals(Link& link, std::span<const std::byte> arrivals) {
  std::vector<Arrival> all(arrivals.size() / sizeof(Arrival));
  const bool whole = take_values(arrivals, all.data(), all.size()) && arrivals.empty();
  const auto is_sound = [](const Arrival& arrival) { return is_rank_of(arrival.rank, arrival.ranks); };
  if (!whole || !std::all_of(all.begin(), all.end(), is_sound)) return refuse(link, "it told of ranks that cannot be");
  link.came += static_cast<int>(all.size());
  if (above_) return above_->add_arrivals(all);
  for (const Arrival& arrival : all)
    if (const std::string wrong = attendance_.add(arrival); !wrong.empty()) fail_all(ErrorCode::invalid_usage, wrong);
}

void Root::handle(Link& link, const Frame& frame) {
  const bool is_node = link.speaks_for_ranks();
  const bool is_rank = link.join.joiner == Joiner::rank;
  if (link.stage == Stage::redirected) {
    if (frame.kind == Kind::placed) link.stage = Stage::left;
    if (frame.kind == Kind::unplaced) admit(link);
    return;
  }
  if (frame.kind == Kind::leave) {
    link.stage = Stage::left;
    left_ += link.came;
  } else if (frame.kind == Kind::gather && is_rank) {
    take_blob(link, link.join.rank, frame.payload);
  } else if (frame.kind == Kind::failed && is_rank) {
    fail_all(ErrorCode::remote_error, fmt::format("rank {} on host {} gave up: {}", link.join.rank,
                                                  text_of(link.join.host), text_of(frame.payload)));
  } else if (frame.kind == Kind::missing) {
    if (above_)
      above_->ask_for_missing();
    else
      fail_all(ErrorCode::system_error, attendance_.missing_text());
  } else if (frame.kind == Kind::came && is_node) {
    note_arrivals(link, frame.payload);
  } else if (frame.kind == Kind::blobs && is_node) {
    const auto visit = [&](Rank rank, std::span<const std::byte> blob) { return take_blob(link, rank, blob); };
    if (!each_blob(frame.payload, visit)) refuse(link, "it sent blobs that make no sense");
  } else if (frame.kind == Kind::error && is_node && frame.payload.size() >= sizeof(std::int32_t)) {
    std::int32_t code = 0;
    std::memcpy(&code, frame.payload.data(), sizeof code);
    fail_all(static_cast<ErrorCode>(code), text_of(frame.payload).substr(sizeof code));
  } else {
    refuse(link, "it sent a message only the root may send");
  }
}

// False for a rank that has not come.
bool Root::take_blob(Link& link, Rank rank, std::span<const std::byte> blob) {
  if (above_) {
    above_->add_blob(rank, blob);
    return true;
  }
  if (!attendance_.give(rank, blob)) {
    refuse(link, "it gave what a rank said that has not come");
    return false;
  }
  if (!failure_ && attendance_.all_gave())
    tell_all(std::make_shared<const Bytes>(frame(Kind::gathered, attendance_.take_table())));
  return true;
}

void Root::drop_broken() {
  for (auto link = links_.begin(); link != links_.end();) {
    // Keep the links of ranks that left: they may wait until the others have left, too, which the end of the connection
    // shows (~Bootstrap).
    if (!link->frames.is_broken()) {
      ++link;
      continue;
    }
    const bool died =
        link->stage == Stage::redirected || (link->stage == Stage::member && link->join.joiner != Joiner::orphan);
    const std::string text =
        link->title() + (link->frames.is_lost() ? kLost : " ended during init: look at its output");
    if (died) left_ += link->came;
    link = links_.erase(link);
    if (died) fail_all(ErrorCode::remote_error, text);
  }
}

void Root::join_first(const Link& link) {
  if (attendance_.ranks() > 0)
    return fail_all(ErrorCode::invalid_usage,
                    fmt::format("rank {} was given other unique ids than another rank: pass the same list, in the same "
                                "order, to all ranks",
                                link.join.rank));
  try {
    above_ = join_first_root(link.join, masked(link.join.first.masked_secret, setup_.secret, link.nonce));
    presences_.push_back(NodesHere::of_process().enter(instance()));
  } catch (const Error& error) {
    fail_all(error.code(), error.what());
  }
}

void Root::hear_above() {
  while (const auto heard = above_->hear()) {
    if (heard->kind != Kind::gathered && heard->kind != Kind::error) continue;
    const auto bytes = std::make_shared<const Bytes>(frame(heard->kind, heard->payload));
    // No further rank of this host can come, or the root shall tell it the reason. The next meeting may have a leader.
    if (setup_.leader >= 0) stop_listening();
    if (heard->kind == Kind::error && !failure_) failure_ = Failure{bytes, Clock::now()};
    tell_all(bytes);
  }
  above_->flush();
  if (failure_) return;
  if (above_->is_silent()) {
    const std::string text = fmt::format("host {} {}", own_host_name().data(), above_->silence_text());
    above_->give_up(error_of(static_cast<std::int32_t>(ErrorCode::system_error), text));
    return fail_all(ErrorCode::system_error, text);
  }
  if (!above_->is_broken()) return;
  const int leader = above_->welcome().leader;
  fail_all(ErrorCode::remote_error,
           leader >= 0
               ? fmt::format("rank {}, through which {} met, ended during init: look at its output", leader,
                             setup_.leader >= 0 ? "this host's ranks" : "ranks")
               : "the root was lost during init: the process that made the unique id ended, or its host is lost: look "
                 "at its output, and whether that host runs and its network is up");
}

void Root::tell_all(std::shared_ptr<const Bytes> bytes) {
  for (Link& link : links_) {
    if (link.stage != Stage::member) continue;
    link.frames.post(bytes);
    link.frames.send();
  }
}

void Root::fail_all(ErrorCode code, const std::string& text) {
  if (failure_) return;
  const Bytes payload = error_of(static_cast<std::int32_t>(code), text);
  // The error comes back from the first root, which tells it to all.
  if (above_ && !above_->is_broken()) return above_->post(Kind::error, payload);
  failure_ = Failure{std::make_shared<const Bytes>(frame(Kind::error, payload)), Clock::now()};
  if (above_ && setup_.leader >= 0) stop_listening();
  tell_all(failure_->frame);
}

namespace {

void start(std::shared_ptr<Root> root) {
  start_thread([root = std::move(root)] {
    try {
      try {
        root->serve();
      } catch (const std::exception& error) {
        root->fail_all(ErrorCode::system_error, fmt::format("the root, in process {} on host {}, gave up: {}",
                                                            ::getpid(), own_host_name().data(), cause_of(error)));
        root->serve();
      }
    } catch (const std::exception& error) {
      try {
        log::info(log::Subsystem::bootstrap, "bootstrap: the root ended: {}", error.what());
      } catch (const std::exception&) {
        // The ranks find that the root has ended.
      }
    }
  }).detach();
}

}  // namespace

void start_root(RootSetup setup) { start(std::make_shared<Root>(std::move(setup))); }

void start_leader(RootSetup setup, LeaderSetup leader) {
  const auto root = std::make_shared<Root>(std::move(setup));
  root->lead(std::move(leader));
  start(root);
}

void start_refusal(RootSetup setup, const Error& reason) {
  const auto root = std::make_shared<Root>(std::move(setup));
  root->fail_all(reason.code(), reason.what());
  start(root);
}

void await_end_of_nodes(std::uint64_t instance, Deadline deadline, const std::atomic<bool>* abort) {
  try {
    while (!deadline.passed() && (abort == nullptr || !abort->load(std::memory_order_acquire)))  // pairs with abort()
      if (NodesHere::of_process().await_none(instance, std::chrono::milliseconds(deadline.remaining_ms(50)))) return;
  } catch (const std::bad_alloc&) {
    // This process has had no node yet.
  }
}

}  // namespace sccl::runtime
