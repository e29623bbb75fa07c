// Streams of the fake driver that wait for values in memory and write them: a stream waits, others go on.
#include <random>

#include "gpu/fake_cuda_state.h"

using namespace fake;

namespace {

struct Operation {  // CUstreamBatchMemOpParams
  int kind;
  u64 address;
  u64 value;
  unsigned flags;
  u64 alias, padding;
};
constexpr int kWait32 = 1, kWrite32 = 2;
constexpr unsigned kEqual = 1;

bool is_registered(u64 address) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto holds = [&](u64 begin, std::size_t bytes) { return address >= begin && address + 4 <= begin + bytes; };
  for (const auto& [begin, allocation] : s.allocations)
    if (holds(begin, allocation.bytes)) return true;
  return false;
}

int check(const Operation& operation) {
  if (operation.kind != kWait32 && operation.kind != kWrite32) return kInvalidValue;
  if (operation.flags != (operation.kind == kWait32 ? kEqual : 0)) return kInvalidValue;
  return operation.address % 4 == 0 && is_registered(operation.address) ? kSuccess : kInvalidValue;
}

void perform(const Operation& operation) {
  static thread_local std::minstd_rand random(static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(&random) >> 4));
  if (state().delays && random() % 4 == 0) ::usleep(static_cast<useconds_t>(random() % 1000));
  auto* const word = reinterpret_cast<unsigned*>(operation.address);
  const auto value = static_cast<unsigned>(operation.value);
  if (operation.kind == kWrite32) return __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
  // Sleeps now and then: many streams wait on few cores.
  for (int polls = 1; __atomic_load_n(word, __ATOMIC_SEQ_CST) != value && working->context.fault == 0; ++polls)
    polls % 64 == 0 ? void(::usleep(20)) : void(::sched_yield());
}

int enqueue(void* stream, std::vector<Operation> operations) {
  const auto found = stream_of(stream);
  if (!found) return kInvalidHandle;
  for (const Operation& operation : operations)
    if (const int code = check(operation)) return code;
  if (const int code = enter_work(stream)) return code;
  if (found->capture && state().version < 12000) {
    ++state().violations;
    return kCaptureUnsupported;
  }
  const bool waits = std::any_of(operations.begin(), operations.end(),
                                 [](const Operation& operation) { return operation.kind == kWait32; });
  found->push(Work{[operations = std::move(operations)] {
                     for (const Operation& operation : operations) perform(operation);
                   },
                   waits ? WorkKind::waits : WorkKind::plain, "a wait for a value", 0});
  return kSuccess;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int cuStreamWaitValue32_v2(void* stream, u64 address, unsigned value, unsigned flags) {
  if (const int code = enter("cuStreamWaitValue32_v2")) return code;
  return enqueue(stream, {{kWait32, address, value, flags, 0, 0}});
}
int cuStreamWriteValue32_v2(void* stream, u64 address, unsigned value, unsigned flags) {
  if (const int code = enter("cuStreamWriteValue32_v2")) return code;
  return enqueue(stream, {{kWrite32, address, value, flags, 0, 0}});
}
int cuStreamBatchMemOp_v2(void* stream, unsigned count, Operation* operations, unsigned flags) {
  if (const int code = enter("cuStreamBatchMemOp_v2")) return code;
  if (count > 256 || flags != 0) return kInvalidValue;
  return enqueue(stream, {operations, operations + count});
}

}  // extern "C"
#pragma GCC visibility pop
