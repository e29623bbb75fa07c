#include "kernels/host/arrival/combining_tree.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace sccl::kernels {
namespace {

// Of a node's word, beside kUse * uses.
constexpr std::uint64_t kAtWork = 1;   // the side that came first copies its operand
constexpr std::uint64_t kAwaited = 2;  // and the other side waits for that
constexpr std::uint64_t kThere = 4;    // the operand of one side
constexpr std::uint64_t kUse = 8;

// What several nodes in a row are evaluated by: scratch memory and the operands stay in the first-level cache.
constexpr std::size_t kBlockBytes = 8192;

}  // namespace

CombiningTree::CombiningTree(CombiningTreeMemory memory, int rank, int ranks)
    : SlotReduction(std::move(memory.slots), rank, ranks),
      counts_(memory.counts),
      done_(memory.done),
      ranks_(ranks),
      scratch_(kBlockBytes) {
  // The lower side of a node holds a power of two of ranks, the upper one what is left.
  for (int low = 0, high = ranks; high - low > 1;) {
    const int middle = low + static_cast<int>(std::bit_ceil(static_cast<unsigned>(high - low)) / 2);
    const bool is_low = rank < middle;
    way_.push_back({middle, is_low ? low : middle, is_low ? middle : low});
    (is_low ? high : low) = middle;
  }
  std::reverse(way_.begin(), way_.end());
}

bool CombiningTree::has_sum(std::size_t slice) const {
  return done_[slot_of(slice)].load(std::memory_order_acquire) > uses_before(slice);  // pairs with contribute()
}

CombiningTree::Try CombiningTree::contribute(std::size_t slice) {
  const std::byte* operand = input_of(slice);
  for (Way way(way_); !way.empty();) {
    std::size_t nodes = 0;
    while (nodes < way.size() && finds_sibling(slice, way[nodes])) ++nodes;
    if (nodes == 0) {
      const Side side = leave(slice, way[0], operand);
      if (side == Side::met_other) return Try::met_other;
      if (side == Side::first) return Try::contributed;
      operand = place_of(slice, way[0].own);
      nodes = 1;
    }
    evaluate(slice, way.first(nodes), operand);
    operand = place_of(slice, std::min(way[nodes - 1].own, way[nodes - 1].sibling));
    way = way.subspan(nodes);
  }
  if (way_.empty()) {
    const Operand alone[] = {{operand, 0}};
    reduce(alone, places_of_sum(slice).of_all(), elements_of(slice), Sum::last);
  }
  done_[slot_of(slice)].store(uses_before(slice) + 1, std::memory_order_release);  // pairs with has_sum()
  end_slice(slice);
  return Try::contributed;
}

// The other side's operand is there, and this rank is the one that uses it.
bool CombiningTree::finds_sibling(std::size_t slice, const Node& node) const {
  std::atomic<std::uint64_t>& count = this->count(slice, node);
  const std::uint64_t before = kUse * uses_before(slice);
  if (count.load(std::memory_order_acquire) != before + kThere) return false;  // pairs with leave()
  count.store(before + kUse, std::memory_order_relaxed);  // read in the next use, after this rank has passed the slot
  return true;
}

// Leaves the operand for the other side, unless it comes second after all.
CombiningTree::Side CombiningTree::leave(std::size_t slice, const Node& node, const std::byte* operand) {
  if (node.shares_place()) return leave_in_shared_place(slice, node, operand);
  std::byte* const shown = place_of(slice, node.own);
  if (operand != shown) copy(operand, shown, elements_of(slice));
  // Both orders pair with the other side's: whoever is second sees the operand that the first one left.
  const std::uint64_t old = count(slice, node).fetch_add(kThere, std::memory_order_acq_rel);
  return old == kUse * uses_before(slice) ? Side::first : Side::second;
}

CombiningTree::Side CombiningTree::leave_in_shared_place(std::size_t slice, const Node& node,
                                                         const std::byte* operand) {
  std::atomic<std::uint64_t>& count = this->count(slice, node);
  const std::uint64_t before = kUse * uses_before(slice);
  std::uint64_t word = before;
  // Relaxed: all ranks have passed the place's last use.
  if (!count.compare_exchange_strong(word, before + kAtWork, std::memory_order_relaxed, std::memory_order_relaxed))
    return Side::met_other;
  copy(operand, place_of(slice, node.own), elements_of(slice));
  const std::uint64_t old = count.exchange(before + kThere, std::memory_order_release);  // pairs with finds_sibling()
  if ((old & kAwaited) != 0) tell(node.sibling);
  return Side::first;
}

// Evaluates nodes one after another; `operand` is this side's of the first one.
void CombiningTree::evaluate(std::size_t slice, Way nodes, const std::byte* operand) {
  const bool is_root = &nodes.back() == &way_.back();
  Places places;
  if (is_root)
    places = places_of_sum(slice);
  else
    places.add(place_of(slice, std::min(nodes.back().own, nodes.back().sibling)));
  const Sum sum = is_root ? Sum::last : Sum::partial;
  if (nodes.size() == 1 || rounds_at_each_operand(call().type, call().kernel))
    evaluate_in_one_pass(slice, nodes, operand, places, sum);
  else
    evaluate_by_blocks(slice, nodes, operand, places, sum);
  count_additions(nodes.size());
}

void CombiningTree::evaluate_in_one_pass(std::size_t slice, Way nodes, const std::byte* operand, const Places& places,
                                         Sum sum) {
  operands_.assign(1, {operand, 0});
  std::uint32_t order = kInOrder;
  for (const Node& node : nodes) {
    if (node.sibling < node.own) order |= 1u << operands_.size();
    operands_.push_back({place_of(slice, node.sibling), 0});
  }
  reduce(operands_, places.of_all(), elements_of(slice), sum, order);
}

void CombiningTree::evaluate_by_blocks(std::size_t slice, Way nodes, const std::byte* operand, const Places& places,
                                       Sum sum) {
  const std::size_t elements = elements_of(slice);
  const std::size_t block = kBlockBytes / bytes_of(1);
  for (std::size_t begin = 0; begin < elements; begin += block) {
    const std::size_t end = std::min(begin + block, elements);
    const std::byte* own = operand + bytes_of(begin);
    for (const Node& node : nodes) {
      const std::byte* const other = place_of(slice, node.sibling) + bytes_of(begin);
      const bool is_low = node.own < node.sibling;
      const Operand operands[] = {{is_low ? own : other, 0}, {is_low ? other : own, 0}};
      if (&node == &nodes.back()) {
        reduce(operands, places.from(bytes_of(begin)).of_all(), end - begin, sum, kInOrder);
        break;
      }
      void* const scratch[] = {scratch_.data()};
      reduce(operands, scratch, end - begin, Sum::partial, kInOrder);
      own = scratch_.data();
    }
  }
}

// The only other rank that can be at work is the one that shares this rank's place.
bool CombiningTree::waits_for(std::size_t slice) {
  std::atomic<std::uint64_t>& count = this->count(slice, way_.front());
  std::uint64_t word = count.load(std::memory_order_relaxed);
  if ((word & kAtWork) == 0) return false;
  return (word & kAwaited) != 0 ||
         count.compare_exchange_strong(word, word | kAwaited, std::memory_order_relaxed, std::memory_order_relaxed);
}

}  // namespace sccl::kernels
