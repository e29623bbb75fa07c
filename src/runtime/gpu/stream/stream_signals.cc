#include "runtime/gpu/stream/stream_signals.h"

#include <algorithm>
#include <cstddef>

#include "platform/gpu/stream_operations.h"

namespace sccl::runtime {
namespace {

using device::u32;
using device::u64;
using device::gpu::GateSignal;
using device::gpu::SignalGate;
using device::gpu::SignalStep;

template <typename T>
T* at(gpu::Address address) {
  return reinterpret_cast<T*>(address);
}

u64 number_of(const SignalAddress& address) {
  return 1 + static_cast<u64>(address.signal * MemoryLayout::kContexts + address.context);
}

// One gate per peer: at most one wait per peer and round.
std::vector<SignalWait> take_round(std::vector<SignalWait>& waits) {
  std::vector<SignalWait> round, rest;
  for (const SignalWait& wait : waits) {
    const bool taken = round.size() == device::gpu::kMostWaits ||
                       std::any_of(round.begin(), round.end(),
                                   [&](const SignalWait& other) { return other.from.peer == wait.from.peer; });
    (taken ? rest : round).push_back(wait);
  }
  waits = std::move(rest);
  return round;
}

}  // namespace

// Enqueues one call.
class StreamSignals::Pass {
 public:
  Pass(StreamSignals& owner, gpu::Stream stream, u64 sequence)
      : owner_(owner),
        path_(owner.path_),
        stream_(*owner.resources_.membership().device.driver, stream),
        sequence_(sequence) {}

  void begin_waits() {
    const u32 finished = __atomic_load_n(&path_.progress().finished, __ATOMIC_ACQUIRE);
    call_ = path_.log.begin(static_cast<u32>(sequence_), finished);
    stream_.write(path_.progress_address(offsetof(StreamProgress, call)), call_);
  }
  void copy(gpu::Address to, gpu::Address from, std::size_t bytes) { stream_.copy(to, from, bytes); }
  void run(Arguments& arguments) {
    stream_.launch(owner_.resources_.kernels().function(kernels::kSignal), 1, 1, &arguments);
  }
  void wait_at_gate_of(Rank peer) {
    u64* const open = &path_.gate(path_.rank, peer)->open;
    const u32 stage = path_.log.append(call_, {reinterpret_cast<u32*>(open), 1, peer, AwaitedThing::signal});
    stream_.write(path_.progress_address(offsetof(StreamProgress, stage)), stage);
    stream_.wait(path_.gate_address(path_.rank, peer) + offsetof(SignalGate, open), 1);
  }
  void finish() {
    if (sequence_ != 0)
      stream_.write(path_.progress_address(offsetof(StreamProgress, finished)), static_cast<u32>(sequence_));
    if (call_ != 0) stream_.write(path_.progress_address(offsetof(StreamProgress, stage)), 0);
    stream_.flush();
  }

 private:
  StreamSignals& owner_;
  StreamPath& path_;
  gpu::StreamOperations stream_;
  u64 sequence_;
  u32 call_ = 0;  // its number in the log; 0: this call waits for nothing
};

StreamSignals::Arguments StreamSignals::arguments(SignalStep step) const {
  Arguments arguments{};
  arguments.step = step;
  arguments.stopping = at<const u64>(path_.progress_address(offsetof(StreamProgress, stopping)));
  return arguments;
}

GateSignal StreamSignals::outgoing(const SignalAddress& to) const {
  return {at<u64>(resources_.membership().signal(to.peer, path_.rank, to.signal, to.context)),
          resources_.tables().sent(to.peer, to.signal, to.context),
          at<SignalGate>(path_.gate_address(to.peer, path_.rank)), number_of(to), 0};
}

GateSignal StreamSignals::incoming(const SignalWait& wait) const {
  const SignalAddress& from = wait.from;
  return {at<u64>(resources_.membership().signal(path_.rank, from.peer, from.signal, from.context)),
          resources_.tables().used(from.peer, from.signal, from.context),
          at<SignalGate>(path_.gate_address(path_.rank, from.peer)), number_of(from), wait.count};
}

void StreamSignals::put(const PutRequest& request, gpu::Stream stream, u64 sequence) {
  Pass pass(*this, stream, sequence);
  if (request.window != nullptr && !request.data.empty())
    pass.copy(request.window->bases[static_cast<std::size_t>(request.to.peer)] + request.offset,
              reinterpret_cast<gpu::Address>(request.data.data()), request.data.size());
  Arguments send = arguments(SignalStep::send);
  send.signals[send.count++] = outgoing(request.to);
  pass.run(send);
  pass.finish();
}

void StreamSignals::wait(std::span<const SignalWait> waits, gpu::Stream stream, u64 sequence) {
  Pass pass(*this, stream, sequence);
  pass.begin_waits();
  std::vector<SignalWait> left(waits.begin(), waits.end());
  while (!left.empty()) {
    const std::vector<SignalWait> round = take_round(left);
    for (const SignalStep step : {SignalStep::arm, SignalStep::confirm}) {
      Arguments gates = arguments(step);
      for (const SignalWait& wait : round) gates.signals[gates.count++] = incoming(wait);
      pass.run(gates);
      for (const SignalWait& wait : round) pass.wait_at_gate_of(wait.from.peer);
    }
  }
  pass.finish();
}

}  // namespace sccl::runtime
