#include "runtime/control/hosts/state_changes.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "runtime/bootstrap/meeting/wire.h"

namespace sccl::runtime {
namespace {

enum class ItemKind : std::uint32_t {
  call,
  activity,
  notice,
  gathering,
  presence,
  fault,
  end,
  arrivals,
  arrival_times,
  arrival_forms,
  sent
};

struct ItemHead {
  ItemKind kind = ItemKind::call;
  std::int32_t rank = 0;
  std::uint32_t index = 0;  // of a board
  std::uint32_t bytes = 0;  // that follow
};

struct NoticeItem {
  std::uint64_t tag = 0;
  std::array<std::byte, Notice::kBytes> bytes{};
};

void append_item(ItemKind kind, Rank rank, std::uint32_t index, std::span<const std::byte> body, Bytes& to) {
  const ItemHead head{kind, rank, index, static_cast<std::uint32_t>(body.size())};
  wire::append(to, wire::bytes_of(head));
  wire::append(to, body);
}

template <typename T>
void append_value(ItemKind kind, Rank rank, std::uint32_t index, const T& value, Bytes& to) {
  static_assert(std::is_trivially_copyable_v<T>);
  append_item(kind, rank, index, wire::bytes_of(value), to);
}

template <typename T>
bool read_value(std::span<const std::byte> body, T& value) {
  if (body.size() != sizeof value) return false;
  std::memcpy(static_cast<void*>(&value), body.data(), sizeof value);
  return true;
}

}  // namespace

void StateChanges::collect(Bytes& to) {
  // All loads here pair with the release of the owner's stores.
  const int fault = state_->fault.load(std::memory_order_acquire);
  const std::uint32_t presence = state_->presence.load(std::memory_order_acquire);
  const std::uint64_t gathering = state_->gathering.load(std::memory_order_acquire);
  const std::uint64_t arrival_forms = state_->arrival.words.agreed.load(std::memory_order_acquire);
  Bytes notices;
  collect_notices(notices);
  ActivityItem activity;
  const bool is_active = look_at_activity(activity);
  if (is_active || calls_incomplete_) collect_calls(activity.entered, to);
  if (is_active) append_value(ItemKind::activity, rank_, 0, activity, to);
  collect_arrivals(to);
  collect_arrival_times(to);
  collect_sent(to);
  if (arrival_forms != arrival_forms_)
    append_value(ItemKind::arrival_forms, rank_, 0, arrival_forms_ = arrival_forms, to);
  wire::append(to, notices);
  if (gathering != gathering_) append_value(ItemKind::gathering, rank_, 0, gathering_ = gathering, to);
  if (presence != presence_) append_value(ItemKind::presence, rank_, 0, presence_ = presence, to);
  if (fault == fault_) return;
  fault_ = fault;
  Bytes body(sizeof fault);
  std::memcpy(body.data(), &fault, sizeof fault);
  const auto end = std::find(state_->fault_text.begin(), state_->fault_text.end(), '\0');
  wire::append(body, std::as_bytes(std::span(state_->fault_text.begin(), end)));
  append_item(ItemKind::fault, rank_, 0, body, to);
}

// False when nothing has changed.
bool StateChanges::look_at_activity(ActivityItem& item) {
  const Activity& activity = state_->activity;
  item.completed = activity.completed.load(std::memory_order_acquire);  // pairs with the end of a call
  item.entered = activity.entered.load(std::memory_order_acquire);
  item.transfers = activity.transfers.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < item.waits.size(); ++i) item.waits[i] = activity.waits[i].load(std::memory_order_relaxed);
  const std::uint64_t since = activity.waits_since_us.load(std::memory_order_relaxed);
  item.is_waiting = since == 0 ? 0 : 1;
  item.stopped = activity.stopped.load(std::memory_order_relaxed);
  item.waits_outside = activity.waits_outside.load(std::memory_order_relaxed);
  if (const std::uint64_t now = monotonic_us(); since != 0 && now > since) item.waited_us = now - since;
  const bool same = item.completed == activity_.completed && item.entered == activity_.entered &&
                    item.transfers == activity_.transfers && since == waits_since_us_ &&
                    item.waits == activity_.waits && item.stopped == activity_.stopped &&
                    item.waits_outside == activity_.waits_outside;
  activity_ = item;
  waits_since_us_ = since;
  return !same;
}

void StateChanges::collect_calls(std::uint64_t entered, Bytes& to) {
  for (std::size_t slot = 0; slot < calls_.size(); ++slot) {
    const CallRecord& record = state_->records[slot];
    const std::uint64_t sequence = record.sequence.load(std::memory_order_acquire);
    CallSignature call;
    // One that is being written comes with the next look.
    if (sequence == 0 || sequence == calls_[slot] || !record.read(sequence, call)) continue;
    calls_[slot] = sequence;
    append_value(ItemKind::call, rank_, 0, call, to);
  }
  calls_incomplete_ = entered != 0 && calls_[entered % calls_.size()] < entered;
}

// Each value stands for itself.
void StateChanges::collect_arrivals(Bytes& to) {
  const ArrivalSums& sums = state_->arrival.sums;
  const ArrivalItem item{sums.last.load(std::memory_order_relaxed), sums.behind_ns.load(std::memory_order_relaxed),
                         sums.calls.load(std::memory_order_relaxed), sums.in_calls_ns.load(std::memory_order_relaxed)};
  if (item != arrivals_) append_value(ItemKind::arrivals, rank_, 0, arrivals_ = item, to);
}

// Likewise.
void StateChanges::collect_arrival_times(Bytes& to) {
  ArrivalTimesItem item;
  std::size_t at = 0;
  for (const auto& group : state_->arrival.times.sums)
    for (const ArrivalTimes::Sum& sum : group) {
      item.values[at++] = sum.calls.load(std::memory_order_relaxed);
      item.values[at++] = sum.thousandths.load(std::memory_order_relaxed);
    }
  if (item != arrival_times_) append_value(ItemKind::arrival_times, rank_, 0, arrival_times_ = item, to);
}

// Likewise.
void StateChanges::collect_sent(Bytes& to) {
  const SentCounts::Words words = state_->sent.words();
  if (words != sent_) append_value(ItemKind::sent, rank_, 0, sent_ = words, to);
}

// What a rank has posted stays until all ranks have seen it. Where a failed agreement replaces it earlier, the next
// look finds the new one.
void StateChanges::collect_notices(Bytes& to) {
  for (std::size_t board = 0; board < notices_.size(); ++board) {
    const Notice& notice = state_->notices[board];
    const std::uint64_t tag = notice.tag.load(std::memory_order_acquire);  // pairs with Notice::post
    if (tag == notices_[board]) continue;
    if (tag == 0) continue;  // it is being replaced
    const NoticeItem item{tag, notice.read()};
    if (notice.tag.load(std::memory_order_relaxed) != tag) continue;
    notices_[board] = tag;
    append_value(ItemKind::notice, rank_, static_cast<std::uint32_t>(board), item, to);
  }
}

void append_end(Rank rank, RemoteEnd end, Bytes& to) { append_value(ItemKind::end, rank, 0, end, to); }

namespace {

bool apply_call(std::span<const std::byte> body, SharedState& state) {
  CallSignature call;
  if (!read_value(body, call)) return false;
  state.records[call.sequence % SharedState::kRecords].publish(call);
  return true;
}

bool apply_activity(std::span<const std::byte> body, SharedState& state) {
  ActivityItem item;
  if (!read_value(body, item)) return false;
  Activity& activity = state.activity;
  for (std::size_t i = 0; i < item.waits.size(); ++i) activity.waits[i].store(item.waits[i], std::memory_order_relaxed);
  const std::uint64_t since = item.is_waiting == 0 ? 0 : std::max<std::uint64_t>(1, monotonic_us() - item.waited_us);
  activity.waits_since_us.store(since, std::memory_order_relaxed);
  activity.transfers.store(item.transfers, std::memory_order_relaxed);
  activity.stopped.store(item.stopped, std::memory_order_relaxed);
  activity.waits_outside.store(item.waits_outside, std::memory_order_relaxed);
  activity.entered.store(item.entered, std::memory_order_release);
  activity.completed.store(item.completed, std::memory_order_release);  // pairs with the health check of a call
  return true;
}

bool apply_arrivals(std::span<const std::byte> body, SharedState& state) {
  ArrivalItem item;
  if (!read_value(body, item)) return false;
  ArrivalSums& sums = state.arrival.sums;
  sums.last.store(item.last, std::memory_order_relaxed);
  sums.behind_ns.store(item.behind_ns, std::memory_order_relaxed);
  sums.calls.store(item.calls, std::memory_order_relaxed);
  sums.in_calls_ns.store(item.in_calls_ns, std::memory_order_relaxed);
  return true;
}

bool apply_arrival_times(std::span<const std::byte> body, SharedState& state) {
  ArrivalTimesItem item;
  if (!read_value(body, item)) return false;
  std::size_t at = 0;
  for (auto& group : state.arrival.times.sums)
    for (ArrivalTimes::Sum& sum : group) {
      sum.calls.store(item.values[at++], std::memory_order_relaxed);
      sum.thousandths.store(item.values[at++], std::memory_order_relaxed);
    }
  return true;
}

bool apply_sent(std::span<const std::byte> body, SharedState& state) {
  SentCounts::Words words;
  if (!read_value(body, words)) return false;
  state.sent.store(words);
  return true;
}

bool apply_notice(std::uint32_t board, std::span<const std::byte> body, SharedState& state) {
  NoticeItem item;
  if (!read_value(body, item) || board >= state.notices.size()) return false;
  state.notices[board].post(item.tag, item.bytes);
  return true;
}

// A word that stands for itself, or for what was stored before it.
template <typename T>
bool apply_word(std::span<const std::byte> body, std::atomic<T>& word) {
  T value{};
  if (!read_value(body, value)) return false;
  word.store(value, std::memory_order_release);  // pairs with the peers' looks at it
  return true;
}

bool apply_fault(std::span<const std::byte> body, SharedState& state) {
  int code = 0;
  if (body.size() < sizeof code) return false;
  std::memcpy(&code, body.data(), sizeof code);
  const auto text = body.subspan(sizeof code);
  state.publish_fault(code, {reinterpret_cast<const char*>(text.data()), text.size()});
  return true;
}

bool apply_item(const ItemHead& head, std::span<const std::byte> body, Mirror& mirror) {
  switch (head.kind) {
    case ItemKind::call:
      return apply_call(body, mirror.state);
    case ItemKind::activity:
      return apply_activity(body, mirror.state);
    case ItemKind::notice:
      return apply_notice(head.index, body, mirror.state);
    case ItemKind::gathering:
      return apply_word(body, mirror.state.gathering);
    case ItemKind::presence:
      return apply_word(body, mirror.state.presence);
    case ItemKind::fault:
      return apply_fault(body, mirror.state);
    case ItemKind::end:
      return apply_word(body, mirror.end);
    case ItemKind::arrivals:
      return apply_arrivals(body, mirror.state);
    case ItemKind::arrival_times:
      return apply_arrival_times(body, mirror.state);
    case ItemKind::arrival_forms:
      return apply_word(body, mirror.state.arrival.words.agreed);
    case ItemKind::sent:
      return apply_sent(body, mirror.state);
  }
  return false;
}

}  // namespace

bool apply_changes(std::span<const std::byte> bytes, const std::function<Mirror*(Rank)>& mirror_of, bool& urgent) {
  while (!bytes.empty()) {
    ItemHead head;
    std::span<const std::byte> body;
    if (!take_value(bytes, head) || !take_bytes(bytes, head.bytes, body)) return false;
    Mirror* const mirror = mirror_of(head.rank);
    if (mirror == nullptr || !apply_item(head, body, *mirror)) return false;
    urgent =
        urgent || (head.kind != ItemKind::call && head.kind != ItemKind::activity && head.kind != ItemKind::arrivals &&
                   head.kind != ItemKind::arrival_times && head.kind != ItemKind::sent);
  }
  return true;
}

}  // namespace sccl::runtime
