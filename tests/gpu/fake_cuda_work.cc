// The fake driver's streams, captures and graphs, events.
#include <pthread.h>

#include "gpu/fake_cuda_state.h"

using namespace fake;

#pragma GCC visibility push(default)
extern "C" {

// A forked process has none of the threads behind its parent's streams.
[[maybe_unused]] static const int at_fork = ::pthread_atfork(nullptr, nullptr, [] {
  new std::vector<std::shared_ptr<FakeStream>>(std::move(state().destroyed));
  state().destroyed.clear();
});

// The work of a destroyed stream goes on.
static void forget_ended() {
  std::vector<std::shared_ptr<FakeStream>> ended;  // their threads are waited for without the lock
  State& s = state();
  const std::lock_guard lock(s.mutex);
  std::erase_if(s.destroyed, [&](const auto& stream) {
    if (!stream->has_ended()) return false;
    ended.push_back(stream);
    return true;
  });
}
int cuStreamCreate(void** stream, unsigned flags) {
  if (const int code = enter("cuStreamCreate")) return code;
  if (current == nullptr) return kInvalidContext;
  auto made = std::make_shared<FakeStream>(current_device(), (flags & 1) == 0, next_channel(current_device()));
  forget_ended();
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.free_handles.empty()) s.free_handles.push_back(&s.stream_handles.emplace_back());  // never given back
  *stream = s.free_handles.back();
  s.free_handles.pop_back();
  s.streams[*stream] = std::move(made);
  return kSuccess;
}
int cuStreamDestroy_v2(void* stream) {
  if (const int code = enter("cuStreamDestroy_v2")) return code;
  forget_ended();
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.streams.find(stream);
  if (found == s.streams.end()) return kInvalidHandle;
  if (found->second->capture) found->second->capture->invalid = true;
  s.destroyed.push_back(std::move(found->second));
  s.streams.erase(found);
  s.free_handles.push_back(stream);
  return kSuccess;
}
int cuStreamSynchronize(void* stream) {
  if (const int code = enter_unsafe("cuStreamSynchronize")) return code;
  const auto found = stream_of(stream);
  if (!found) return kInvalidHandle;
  if (found->capture) return spoil(*found->capture, kCaptureUnsupported);
  found->drain();
  return enter_unsafe("cuStreamSynchronize");  // a kernel may have faulted meanwhile
}
int cuStreamGetId(void* stream, u64* id) {
  if (const int code = enter("cuStreamGetId")) return code;
  const auto found = stream_of(stream);
  if (!found) return kInvalidHandle;
  if (found->capture) return spoil(*found->capture, kCaptureUnsupported);  // an H200 does this
  *id = found->unique;
  return kSuccess;
}
int cuStreamQuery(void* stream) {
  if (const int code = enter_unsafe("cuStreamQuery")) return code;
  const auto found = stream_of(stream);
  if (!found) return kInvalidHandle;
  if (found->capture) return spoil(*found->capture, kCaptureUnsupported);
  const std::lock_guard lock(found->mutex);
  return found->completed == found->pushed ? kSuccess : kNotReady;
}
int cuStreamIsCapturing(void* stream, int* status) {
  if (const int code = enter("cuStreamIsCapturing")) return code;
  if (capture_beside_legacy(stream)) return kCaptureImplicit;
  const auto found = stream_of(stream);
  if (!found) return kInvalidHandle;
  *status = !found->capture ? 0 : found->capture->invalid ? 2 : 1;
  return kSuccess;
}
int cuStreamGetCaptureInfo_v2(void* stream, int* status, u64* id, void** graph, const void***, unsigned long*) {
  if (const int code = enter("cuStreamGetCaptureInfo_v2")) return code;
  if (capture_beside_legacy(stream)) return kCaptureImplicit;
  const auto found = stream_of(stream);
  if (!found) return kInvalidHandle;
  *status = !found->capture ? 0 : found->capture->invalid ? 2 : 1;
  if (found->capture && id != nullptr) *id = found->capture->id;
  if (found->capture && graph != nullptr) *graph = found->capture.get();
  return kSuccess;
}
int cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return enter("cuThreadExchangeStreamCaptureMode");
}
int cuStreamBeginCapture_v2(void* stream, int mode) {
  State& s = state();
  if (is_legacy(stream)) return kCaptureUnsupported;
  const auto found = stream_of(stream);
  if (!found) return kInvalidHandle;
  const std::lock_guard lock(s.mutex);
  if (found->capture) return kIllegalState;
  found->capture = std::make_shared<Graph>();
  found->capture->id = s.next++;
  found->capture->thread = std::this_thread::get_id();
  s.graphs[found->capture.get()] = found->capture;
  found->capture->mode = mode;
  if (mode == 0) ++s.global_captures;
  if (mode == 1) ++thread_captures;
  return kSuccess;
}
int cuStreamEndCapture(void* stream, void** graph) {
  State& s = state();
  const auto found = stream_of(stream);
  if (!found) return kInvalidHandle;
  std::shared_ptr<Graph> ended;
  const std::lock_guard lock(s.mutex);
  if (!found->capture) return kIllegalState;
  if (found->capture->mode != 2 && found->capture->thread != std::this_thread::get_id()) return kCaptureWrongThread;
  ended = found->capture;
  for (const auto& [known, other] : s.streams)
    if (other->capture == ended) other->capture = nullptr;  // those that joined it, too
  found->capture = nullptr;
  if (ended->mode == 0) --s.global_captures;
  if (ended->mode == 1) --thread_captures;
  *graph = ended->invalid ? nullptr : ended.get();
  if (!ended->invalid) return kSuccess;
  s.graphs.erase(ended.get());
  return kCaptureInvalidated;
}
int cuGraphInstantiateWithFlags(void** executable, void* graph, u64) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.graphs.count(graph) == 0) return kInvalidValue;
  auto copy = std::make_shared<Graph>(*s.graphs.at(graph));
  *executable = copy.get();
  s.executables[copy.get()] = std::move(copy);
  return kSuccess;
}
int cuGraphLaunch(void* executable, void* stream) {
  std::shared_ptr<Graph> graph;
  {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    graph = s.executables.at(executable);
  }
  const auto found = stream_of(stream);
  if (!found) return kInvalidHandle;
  if (const int code = enter_work(stream)) return code;
  for (const Work& work : graph->work) {
    Work one = work;
    one.run = [graph, run = work.run] { run(); };  // the graph may go while it runs
    found->push(std::move(one));
  }
  return kSuccess;
}
int cuGraphExecDestroy(void* executable) {
  State& s = state();
  std::shared_ptr<Graph> last;
  const std::lock_guard lock(s.mutex);
  if (s.executables.count(executable) == 0) return kInvalidValue;
  last = s.executables.at(executable);
  s.executables.erase(executable);
  return kSuccess;
}
int cuGraphDestroy(void* graph) {
  State& s = state();
  std::shared_ptr<Graph> last;
  const std::lock_guard lock(s.mutex);
  if (s.graphs.count(graph) == 0) return kInvalidValue;
  last = s.graphs.at(graph);
  s.graphs.erase(graph);
  return kSuccess;
}
int cuUserObjectCreate(void** object, void* pointer, void (*destroy)(void*), unsigned, unsigned) {
  if (const int code = enter("cuUserObjectCreate")) return code;
  // By a thread of the driver, which may not call it.
  std::shared_ptr<UserObject> made(new UserObject{pointer, destroy}, [](UserObject* dead) {
    std::thread([dead] {
      in_callback = true;
      dead->destroy(dead->pointer);
      delete dead;
    }).join();
  });
  State& s = state();
  const std::lock_guard lock(s.mutex);
  *object = made.get();
  s.objects[made.get()] = std::move(made);
  return kSuccess;
}
int cuGraphRetainUserObject(void* graph, void* object, unsigned, unsigned flags) {
  if (const int code = enter("cuGraphRetainUserObject")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.graphs.at(graph)->objects.push_back(s.objects.at(object));
  if (flags == 1) s.objects.erase(object);  // moved
  return kSuccess;
}

int cuEventCreate(void** event, unsigned flags) {
  if (const int code = enter("cuEventCreate")) return code;
  if (current == nullptr) return kInvalidContext;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  auto* const made = *s.events.insert(new FakeEvent).first;
  made->device = current_device();
  made->flags = flags;
  *event = made;
  return kSuccess;
}
int cuEventDestroy_v2(void* event) {
  if (const int code = enter("cuEventDestroy_v2")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.events.erase(static_cast<FakeEvent*>(event)) == 0) return kInvalidHandle;
  delete static_cast<FakeEvent*>(event);
  return kSuccess;
}
int cuEventRecord(void* event, void* stream) {
  if (const int code = enter("cuEventRecord")) return code;
  const auto found = stream_of(stream);
  if (!is_known(event)) return kInvalidHandle;
  auto& target = *static_cast<FakeEvent*>(event);
  if (!found || found->device != target.device) return kInvalidHandle;  // both of one context
  if (const int code = enter_work(stream)) return code;
  auto marker = std::make_shared<Marker>();
  target.record({marker, found->capture ? found->capture->id : 0});
  found->push(Work{[marker] {
                     marker->at_us = working->worked_us;
                     marker->done = true;
                   },
                   WorkKind::mark, "an event", 0});
  return kSuccess;
}
static void spoil_capture(u64 id) {
  State& s = state();
  ++s.violations;
  const std::lock_guard lock(s.mutex);
  for (const auto& [handle, stream] : s.streams)
    if (stream->capture && stream->capture->id == id) stream->capture->invalid = true;
}
int cuEventQuery(void* event) {
  if (const int code = enter_unsafe("cuEventQuery")) return code;
  if (!is_known(event)) return kInvalidHandle;
  const auto& asked = *static_cast<FakeEvent*>(event);
  if (const int fault = context_of(asked.device).fault) return fault;
  const FakeEvent::Record record = asked.recorded();
  if (record.capture != 0) return spoil_capture(record.capture), kCapturedEvent;
  return !record.marker || record.marker->done ? kSuccess : kNotReady;
}
int cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
  if (const int code = enter_unsafe("cuEventElapsedTime")) return code;
  if (!is_known(begin) || !is_known(end)) return kInvalidHandle;
  const auto &from = *static_cast<FakeEvent*>(begin), &to = *static_cast<FakeEvent*>(end);
  const FakeEvent::Record first = from.recorded(), last = to.recorded();
  if (((from.flags | to.flags) & kWithoutTiming) != 0) return kInvalidHandle;
  if (!first.marker || !last.marker || from.device != to.device) return kInvalidHandle;
  if (first.capture != 0 || last.capture != 0) return kCapturedEvent;
  if (!first.marker->done || !last.marker->done) return kNotReady;
  *milliseconds = static_cast<float>((last.marker->at_us - first.marker->at_us) / 1000);
  return kSuccess;
}
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  if (const int code = enter("cuStreamWaitEvent")) return code;
  const auto found = stream_of(stream);
  if (!found || !is_known(event)) return kInvalidHandle;
  if (const int code = enter_work(stream)) return code;
  const FakeEvent::Record awaited = static_cast<FakeEvent*>(event)->recorded();
  if (!found->capture && awaited.capture != 0) {  // the stream joins the capture
    State& s = state();
    const std::lock_guard lock(s.mutex);
    for (const auto& [known, graph] : s.graphs)
      if (graph->id == awaited.capture) found->capture = graph;
  }
  const u64 capture = found->capture ? found->capture->id : 0;
  if (capture != awaited.capture) {
    spoil_capture(capture != 0 ? capture : awaited.capture);
    return kCaptureIsolation;
  }
  found->push(Work{[marker = awaited.marker, &context = found->context] {
                     while (marker && !marker->done && context.fault == 0) ::sched_yield();
                   },
                   WorkKind::waits, "a wait for an event", 0});
  return kSuccess;
}

}  // extern "C"
#pragma GCC visibility pop
