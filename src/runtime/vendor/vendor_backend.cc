#include "runtime/vendor/vendor_backend.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/os/thread.h"
#include "base/settings/env.h"
#include "base/settings/log.h"

namespace sccl::runtime {
namespace {

constexpr std::int64_t kDefaultLimitMs = 60000;
constexpr std::int64_t kLongestMs = std::int64_t{1} << 40;
// How often a wait for the library looks whether another rank has given up, or ours is aborted.
constexpr std::chrono::milliseconds kLook{20};
// A peer's step ends with its limit, and its word travels.
constexpr std::chrono::milliseconds kWordsTravel{10000};
constexpr std::chrono::milliseconds kDestroyLimit{5000};
// The first version with fp8.
constexpr int kFp8Since = 22400;
constexpr const char* kPurpose = "the agreement on the vendor's library";

std::chrono::milliseconds vendor_time_limit() {
  return std::chrono::milliseconds(env::number("SCCL_VENDOR_TIMEOUT_MS", kDefaultLimitMs, 0, kLongestMs));
}

ncclRedOp_t to_nccl(ReduceOp op) { return static_cast<ncclRedOp_t>(op); }
ncclDataType_t to_nccl(DataType type) { return static_cast<ncclDataType_t>(type); }

bool is_fp8(DataType type) { return size_bytes(type) == 1 && info(type).floating; }

// The library's function for that collective, where not every library has it.
const char* function_of(Collective collective) {
  switch (collective) {
    case Collective::alltoall:
      return "ncclAlltoAll";
    case Collective::gather:
      return "ncclGather";
    case Collective::scatter:
      return "ncclScatter";
    default:
      return "ncclAllReduce";
  }
}

ncclResult_t enqueue(const VendorFunctions& functions, ncclComm_t communicator, const CollectiveRequest& call,
                     ncclRedOp_t op) {
  const ncclDataType_t type = to_nccl(call.type);
  auto* const stream = static_cast<cudaStream_t>(call.stream);
  switch (call.collective) {
    case Collective::allreduce:
      return functions.all_reduce(call.send, call.recv, call.count, type, op, communicator, stream);
    case Collective::reduce:
      return functions.reduce(call.send, call.recv, call.count, type, op, call.root, communicator, stream);
    case Collective::reducescatter:
      return functions.reduce_scatter(call.send, call.recv, call.count, type, op, communicator, stream);
    case Collective::allgather:
      return functions.all_gather(call.send, call.recv, call.count, type, communicator, stream);
    case Collective::broadcast:
      return functions.broadcast(call.send, call.recv, call.count, type, call.root, communicator, stream);
    case Collective::alltoall:
      return functions.all_to_all(call.send, call.recv, call.count, type, communicator, stream);
    case Collective::gather:
      return functions.gather(call.send, call.recv, call.count, type, call.root, communicator, stream);
    case Collective::scatter:
      return functions.scatter(call.send, call.recv, call.count, type, call.root, communicator, stream);
    case Collective::sendrecv:
      break;
  }
  return ncclInvalidUsage;
}

// A reduction that the program has made is made again for the vendor's communicator, and destroyed after the call has
// taken it.
ncclResult_t enqueue_scaled(const VendorFunctions& functions, ncclComm_t communicator, const CollectiveRequest& call) {
  const Reduction& reduction = call.reduction;
  const bool resides = reduction.scalar_pointer != nullptr;
  void* const scalar =
      resides ? const_cast<void*>(reduction.scalar_pointer) : const_cast<std::uint64_t*>(&reduction.scalar_bits);
  ncclRedOp_t op = ncclSum;
  const ncclResult_t created = functions.create_scaled_sum(
      &op, scalar, to_nccl(call.type), resides ? ncclScalarDevice : ncclScalarHostImmediate, communicator);
  if (created != ncclSuccess) return created;
  const ncclResult_t result = enqueue(functions, communicator, call, op);
  const ncclResult_t destroyed = functions.destroy_reduction(op, communicator);
  return result != ncclSuccess ? result : destroyed;
}

bool has_peer_given_up(const ControlAllGather& gather, const Membership& membership) {
  for (Rank rank = 0; rank < membership.ranks; ++rank) {
    if (rank == membership.rank) continue;
    const auto shown = gather.shown_early(rank);
    if (shown && vendor_word_of(*shown).standing != VendorStanding::usable) return true;
  }
  return false;
}

// Not those that have destroyed their communicator, as they may when their calls have ended.
bool is_lost(const PeerHealth& health, Rank rank) {
  return health.is_gone(rank) && health.presence(rank) != Presence::destroyed;
}

}  // namespace

Deadline vendor_deadline() {
  const std::chrono::milliseconds limit = vendor_time_limit();
  return limit.count() == 0 ? Deadline::never() : Deadline::in(limit);
}

std::string vendor_limit_text() { return fmt::format("{} ms (SCCL_VENDOR_TIMEOUT_MS)", vendor_time_limit().count()); }

VendorBackend::VendorBackend(const Membership& membership)
    : membership_(membership), gather_(membership.control, stop_) {
  if (membership.on_device) made_->set_device(membership.on_device->device);
}

VendorBackend::~VendorBackend() {
  stop_.store(true, std::memory_order_release);  // pairs with the agreement's waits
  if (agreement_.joinable()) agreement_.join();
  if (thread_.busy()) {
    made_->abort();
    return;
  }
  if (!made_->take_end()) return;
  VendorThread::Task ended = VendorThread::kNone;
  try {
    ended = thread_.begin([made = made_] { made->destroy(); }, Deadline::never());
  } catch (const Error&) {
    return;  // no thread can be had; the library keeps what it holds
  }
  if (!thread_.wait(ended, Deadline::in(kDestroyLimit)))
    log::info(log::Subsystem::init, "rank {}: ncclCommDestroy of {} has not ended after {} ms and is left to itself",
              membership_.rank, library().path(), kDestroyLimit.count());
}

std::unique_ptr<VendorBackend> VendorBackend::of(const Membership& membership) {
  if (membership.ranks < 2 || membership.identity.name == kVendorCommunicatorName) return nullptr;
  const Settings& settings = membership.settings;
  const bool serves_hosts = settings.vendor == VendorMode::asked;
  if (serves_hosts || (settings.vendor == VendorMode::automatic && membership.on_device))
    return std::unique_ptr<VendorBackend>(new VendorBackend(membership));
  if (settings.algorithms.find(kVendorAlgorithm) != std::string::npos)
    log::info(log::Subsystem::init,
              "rank {}/{}: SCCL_ALGO={} names the vendor's library, but {}; the usual choice serves", membership.rank,
              membership.ranks, settings.algorithms,
              settings.vendor == VendorMode::never
                  ? "SCCL_VENDOR=never"
                  : "it takes host memory only where SCCL_VENDOR gives the path of one that can");
  return nullptr;
}

void VendorBackend::begin_agreement() {
  State untried = State::untried;
  if (!state_.compare_exchange_strong(untried, State::agreeing)) return;
  agreement_ = start_thread([this] { agree(); });
}

bool VendorBackend::decided() const {
  if (state() == State::agreeing) return false;
  if (early_end_) throw Error(*early_end_);
  return true;
}

void VendorBackend::settle(State state) {
  state_.store(state, std::memory_order_release);  // pairs with state()
  membership_.control.bells().wake(membership_.rank);
}

void VendorBackend::agree() noexcept {
  try {
    agree_in_steps();
  } catch (const Error& error) {
    early_end_ = error;
  } catch (const std::exception& error) {
    early_end_ = Error(ErrorCode::system_error,
                       fmt::format("rank {}: {}: {}: free some memory", membership_.rank, kPurpose, error.what()));
  }
  if (early_end_) {
    why_not_ = early_end_->what();
    made_->abort();
    settle(State::refused);
  }
}

// The peers may come to the call as late as they like; from then on every step has its limit.
void VendorBackend::agree_in_steps() {
  const std::chrono::milliseconds limit = vendor_time_limit();
  const auto later = [&] {
    return limit.count() == 0 ? Deadline::never() : Deadline::in(limit + limit + kWordsTravel);
  };
  if (!agree_on(find_library(), Deadline::never())) return;
  const VendorWord id = membership_.rank != 0 ? VendorWord{} : run("ncclGetUniqueId", [](VendorCommunicator& made) {
    VendorWord word;
    ncclUniqueId made_id;
    const VendorFunctions& functions = made.library()->functions();
    const VendorAnswer answer = answer_of(functions, nullptr, functions.get_unique_id(&made_id));
    if (answer.code != ncclSuccess)
      return VendorWord::without(VendorStanding::broken, "ncclGetUniqueId: " + answer.text);
    std::memcpy(word.text.data(), made_id.internal, sizeof made_id);
    return word;
  });
  if (!agree_on(id, later())) return;
  if (!agree_on(make_communicator(), later())) return made_->abort();
  log::info(log::Subsystem::init, "rank {}/{}: {} serves as algorithm {}", membership_.rank, membership_.ranks,
            library().text(), kVendorAlgorithm);
  settle(State::ready);
}

VendorWord VendorBackend::find_library() {
  const VendorSetting setting = vendor_setting();
  const auto opened = std::make_shared<VendorLibrary::Opened>();
  const VendorWord found = run("dlopen", [setting, opened](VendorCommunicator& made) {
    *opened = VendorLibrary::find(setting, made.device() ? std::optional(made.device()->driver->vendor) : std::nullopt);
    if (opened->library == nullptr)
      return VendorWord::without(setting.mode == VendorMode::asked ? VendorStanding::broken : VendorStanding::left_out,
                                 opened->why_not);
    VendorWord word;
    word.version = opened->library->version();
    word.functions = opened->library->function_bits();
    return word;
  });
  if (found.standing == VendorStanding::usable) made_->use(opened->library);
  return found;
}

VendorWord VendorBackend::make_communicator() {
  ncclUniqueId id;
  std::memcpy(id.internal, words_.front().text.data(), sizeof id);
  return run("ncclCommInitRankConfig", [id, rank = membership_.rank,
                                        ranks = membership_.ranks](VendorCommunicator& made) {
    const VendorAnswer answer = made.init(ranks, id, rank);
    if (answer.code == ncclSuccess) return VendorWord{};
    // A rank that gave up leaves the others with such an error.
    const VendorStanding standing = answer.code == ncclRemoteError ? VendorStanding::follows : VendorStanding::broken;
    return VendorWord::without(standing, "ncclCommInitRankConfig: " + answer.text);
  });
}

VendorWord VendorBackend::run(const std::string& function, Step step) {
  const auto said = std::make_shared<VendorWord>();
  const Deadline deadline = vendor_deadline();
  const VendorThread::Task task = thread_.begin(
      [said, made = made_, step = std::move(step)] {
        try {
          *said = step(*made);
        } catch (const std::exception& error) {
          *said = VendorWord::without(VendorStanding::broken, error.what());
        }
      },
      Deadline::never());  // none runs before the ranks have agreed
  const auto others_left = [&] {
    return has_peer_given_up(gather_, membership_) || stop_.load(std::memory_order_acquire);  // pairs with abort()
  };
  const auto where = [&] { return function + (made_->library() ? " of " + library().path() : ""); };
  while (!thread_.wait(task, Deadline::in(kLook))) {
    const bool leaves = others_left();
    if (!leaves && !deadline.passed()) continue;
    made_->abort();
    if (leaves)
      return VendorWord::without(VendorStanding::follows, fmt::format("left {}, as another rank did", where()));
    return VendorWord::without(VendorStanding::broken,
                               fmt::format("{} has not ended after {}", where(), vendor_limit_text()));
  }
  if (said->standing == VendorStanding::follows && !others_left()) said->standing = VendorStanding::broken;
  return *said;
}

bool VendorBackend::agree_on(const VendorWord& mine, Deadline deadline) {
  words_.clear();
  for (const auto& payload : gather_.all_gather(kPurpose, std::as_bytes(std::span(&mine, 1)), deadline))
    words_.push_back(vendor_word_of(payload));
  const VendorVerdict told = verdict(membership_.settings.vendor, words_);
  using Outcome = VendorVerdict::Outcome;
  if (functions_ == 0) functions_ = told.functions;
  if (told.outcome == Outcome::use) return true;
  why_not_ = told.why;
  if (told.outcome == Outcome::leave_out)
    log::info(log::Subsystem::init, "rank {}/{}: the vendor's library is left out, and our own schedules serve: {}",
              membership_.rank, membership_.ranks, why_not_);
  settle(told.outcome == Outcome::leave_out ? State::left_out : State::refused);
  return false;
}

bool VendorBackend::has(const char* function) const {
  for (std::size_t i = 0; i < kVendorFunctions.size(); ++i)
    if (std::string_view(kVendorFunctions[i].name) == function) return (functions_ & std::uint64_t{1} << i) != 0;
  return false;
}

// Devices before Hopper have no sums of fp8.
bool VendorBackend::serves(Collective collective, DataType type) const {
  return collective != Collective::sendrecv && has(function_of(collective)) &&
         (!is_fp8(type) || (library().version() >= kFp8Since && !info(collective).reduces));
}

void VendorBackend::perform(const char* name, Ranks ranks, const VendorCommunicator::Function& function) {
  if (ranks == Ranks::together) gather_.all_gather(name, {}, Deadline::never());
  const auto answer = std::make_shared<VendorAnswer>();
  const Deadline deadline = vendor_deadline();
  const auto ask = [answer, function, made = made_] { *answer = made->ask(function); };
  VendorThread::Task task = VendorThread::kNone;
  while (!thread_.run(task, ask, Deadline::in(kLook))) {
    const bool stopped = stop_.load(std::memory_order_acquire);  // pairs with abort()
    if (!stopped && !deadline.passed()) continue;
    made_->abort();
    why_not_ = fmt::format("rank {}: {} did not end", membership_.rank, name);
    settle(State::refused);
    if (stopped) fail(ErrorCode::invalid_usage, "rank {}: {} was ended by an abort", membership_.rank, name);
    fail(ErrorCode::system_error,
         "rank {}: {} has not ended in {} after {}: set SCCL_VENDOR=never to do without that library, or allow more "
         "time",
         membership_.rank, name, library().text(), vendor_limit_text());
  }
  if (answer->code == ncclSuccess) return;
  fail(error_code_of(answer->code), "rank {}: {} failed in {}: {}", membership_.rank, name, library().text(),
       answer->text);
}

std::function<VendorAnswer()> VendorBackend::call(const CollectiveRequest& request) const {
  const bool scaled = info(request.collective).reduces && request.reduction.op == ReduceOp::premul_sum;
  const bool registers = has("ncclCommRegister") && has("ncclCommDeregister");
  return [made = made_, request, scaled, registers] {
    return made->ask([&](const VendorFunctions& functions, ncclComm_t communicator) {
      if (registers) made->buffers().pass_on(functions, communicator);
      return scaled ? enqueue_scaled(functions, communicator, request)
                    : enqueue(functions, communicator, request, to_nccl(request.reduction.op));
    });
  };
}

bool all_have_entered(const Membership& membership, std::uint64_t sequence) {
  const Calls calls = membership.control.calls();
  for (Rank rank = 0; rank < membership.ranks; ++rank)
    if (calls.entered(rank) < sequence) return false;
  return true;
}

void VendorBackend::tell_of_peers(const std::string& call) const {
  const PeerHealth health = membership_.control.health();
  health.check_all_faults();
  for (Rank rank = 0; rank < membership_.ranks; ++rank)
    if (rank != membership_.rank && is_lost(health, rank)) health.fail_departed(rank, health.presence(rank), call);
}

void VendorBackend::check_later_errors(Running running) const {
  if (state() != State::ready || made_->has_ended()) return;
  const PeerHealth health = membership_.control.health();
  const std::string call = "a call in the vendor's library";
  if (running == Running::yes) health.check_all_faults();
  for (Rank rank = 0; running == Running::yes && rank < membership_.ranks; ++rank)
    if (rank != membership_.rank && is_lost(health, rank)) health.fail_departed(rank, health.presence(rank), call);
  const VendorAnswer answer = made_->later_error();
  if (answer.code == ncclSuccess) return;
  tell_of_peers(call);
  fail(error_code_of(answer.code), "rank {}: a call failed in {}: {}: set SCCL_VENDOR=never to do without that library",
       membership_.rank, library().text(), answer.text);
}

void VendorBackend::abort() noexcept {
  stop_.store(true, std::memory_order_release);  // pairs with run()
  made_->abort();
}

}  // namespace sccl::runtime
