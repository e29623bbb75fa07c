// The rest of the fake driver: streams, captures and graphs, events, kernels.
#include "gpu/fake_cuda_state.h"

using namespace fake;
using sccl::device::gpu::CallArguments;
using sccl::device::gpu::MoveArguments;
using sccl::device::gpu::OneSidedArguments;
using sccl::device::gpu::SignalArguments;

#pragma GCC visibility push(default)
extern "C" {

int cuStreamCreate(void** stream, unsigned) {
  if (const int code = enter("cuStreamCreate")) return code;
  auto made = std::make_shared<FakeStream>();
  State& s = state();
  const std::lock_guard lock(s.mutex);
  *stream = made.get();
  s.streams[made.get()] = std::move(made);
  return kSuccess;
}
int cuStreamDestroy_v2(void* stream) {
  if (const int code = enter("cuStreamDestroy_v2")) return code;
  std::shared_ptr<FakeStream> dead = stream_of(stream);
  if (!dead) return kInvalidHandle;
  dead->drain();
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.streams.erase(stream);
  return kSuccess;
}
int cuStreamSynchronize(void* stream) {
  if (const int code = enter_unsafe("cuStreamSynchronize")) return code;
  const auto found = stream_of(stream);
  if (!found) return kInvalidHandle;
  if (found->capture) {
    ++state().violations;
    return kCaptureUnsupported;
  }
  found->drain();
  return kSuccess;
}
int cuStreamIsCapturing(void* stream, int* status) {
  *status = stream_of(stream)->capture ? 1 : 0;
  return enter("cuStreamIsCapturing");
}
int cuStreamGetCaptureInfo_v2(void* stream, int* status, u64* id, void** graph, const void***, unsigned long*) {
  if (const int code = enter("cuStreamGetCaptureInfo_v2")) return code;
  const auto found = stream_of(stream);
  if (!found) return kInvalidHandle;
  *status = found->capture ? 1 : 0;
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
  const auto found = stream_of(stream);
  const std::lock_guard lock(s.mutex);
  found->capture = std::make_shared<Graph>();
  found->capture->id = s.next++;
  s.graphs[found->capture.get()] = found->capture;
  found->capture->mode = mode;
  if (mode == 0) ++s.global_captures;
  if (mode == 1) ++thread_captures;
  return kSuccess;
}
int cuStreamEndCapture(void* stream, void** graph) {
  State& s = state();
  const auto found = stream_of(stream);
  const std::lock_guard lock(s.mutex);
  *graph = found->capture.get();
  if (found->capture->mode == 0) --s.global_captures;
  if (found->capture->mode == 1) --thread_captures;
  found->capture = nullptr;
  return kSuccess;
}
int cuGraphInstantiateWithFlags(void** executable, void* graph, u64) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
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
  stream_of(stream)->push([graph] {
    for (const auto& work : graph->work) work();
  });
  return kSuccess;
}
int cuGraphExecDestroy(void* executable) {
  State& s = state();
  std::shared_ptr<Graph> last;
  const std::lock_guard lock(s.mutex);
  last = s.executables.at(executable);
  s.executables.erase(executable);
  return kSuccess;
}
int cuGraphDestroy(void* graph) {
  State& s = state();
  std::shared_ptr<Graph> last;
  const std::lock_guard lock(s.mutex);
  last = s.graphs.at(graph);
  s.graphs.erase(graph);
  return kSuccess;
}
int cuUserObjectCreate(void** object, void* pointer, void (*destroy)(void*), unsigned, unsigned) {
  if (const int code = enter("cuUserObjectCreate")) return code;
  std::shared_ptr<UserObject> made(new UserObject{pointer, destroy}, [](UserObject* dead) {
    dead->destroy(dead->pointer);
    delete dead;
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

int cuEventCreate(void** event, unsigned) {
  if (const int code = enter("cuEventCreate")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  *event = *s.events.insert(new FakeEvent).first;
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
  if (!found) return kInvalidHandle;
  auto marker = std::make_shared<Marker>();
  auto& target = *static_cast<FakeEvent*>(event);
  target.capture = found->capture ? found->capture->id : 0;
  target.marker = marker;
  found->push([marker] {
    marker->at_us = working->worked_us;
    marker->done = true;
  });
  return kSuccess;
}
int cuEventQuery(void* event) {
  if (const int code = enter_unsafe("cuEventQuery")) return code;
  const auto& marker = static_cast<FakeEvent*>(event)->marker;
  return !marker || marker->done ? kSuccess : kNotReady;
}
int cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
  if (const int code = enter_unsafe("cuEventElapsedTime")) return code;
  const auto &first = static_cast<FakeEvent*>(begin)->marker, &last = static_cast<FakeEvent*>(end)->marker;
  if (!first || !last) return kInvalidHandle;
  if (!first->done || !last->done) return kNotReady;
  *milliseconds = static_cast<float>((last->at_us - first->at_us) / 1000);
  return kSuccess;
}
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  if (const int code = enter("cuStreamWaitEvent")) return code;
  const auto found = stream_of(stream);
  const auto& awaited = *static_cast<FakeEvent*>(event);
  const u64 capture = found->capture ? found->capture->id : 0;
  if (capture != awaited.capture) {
    ++state().violations;
    return kCaptureIsolation;
  }
  found->push([marker = awaited.marker] {
    while (marker && !marker->done) ::sched_yield();
  });
  return kSuccess;
}

int cuModuleLoadData(void** module, const void* image) {
  if (const int code = enter_unsafe("cuModuleLoadData")) return code;
  if (std::memcmp(image, "FAKE ", 5) != 0) return 200;  // invalid image
  auto* made = new Module{static_cast<const char*>(image)};
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.modules.insert(made);
  *module = made;
  return kSuccess;
}
int cuModuleUnload(void* module) {
  if (const int code = enter("cuModuleUnload")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.modules.erase(static_cast<Module*>(module)) == 0) return kInvalidHandle;
  delete static_cast<Module*>(module);
  return kSuccess;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  if (const int code = enter("cuModuleGetFunction")) return code;
  if (static_cast<Module*>(module)->image.find(name) == std::string::npos) return 500;  // not found
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.functions.push_back(std::make_unique<Function>(Function{name}));
  *function = s.functions.back().get();
  return kSuccess;
}
int cuLaunchKernel(void* function, unsigned grid, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                   unsigned shared_bytes, void* stream, void** parameters, void**) {
  if (const int code = enter("cuLaunchKernel")) return code;
  if (current == nullptr) return kInvalidContext;
  if (function == nullptr || grid == 0 || threads == 0 || threads > 512 || shared_bytes > 44 * 1024)
    return kInvalidValue;
  const auto found = stream_of(stream);
  if (!found) return kInvalidHandle;
  const std::string name = static_cast<const Function*>(function)->name;
  const auto ran = [name] {
    State& s = state();
    s.kernels.fetch_add(1);
    const std::lock_guard lock(s.mutex);
    s.launched.append(";").append(name);
  };
  if (name.compare(0, 10, "sccl_move_") == 0)
    found->push([=, arguments = *static_cast<const MoveArguments*>(parameters[0])] {
      sccl::device::gpu::launch_move_on_host(arguments, grid, kThreads);
      work_of_kernel(arguments.elements * arguments.element_bytes);
      ran();
    });
  else if (name == "sccl_signal")
    found->push([=, arguments = *static_cast<const SignalArguments*>(parameters[0])] {
      sccl::device::gpu::launch_on_host(arguments);
      ran();
    });
  else if (name == "sccl_one_sided")
    found->push([=, arguments = *static_cast<const OneSidedArguments*>(parameters[0])] {
      sccl::device::gpu::launch_on_host(arguments, grid, kThreads);
      ran();
    });
  else
    found->push([=, arguments = *static_cast<const CallArguments*>(parameters[0])] {
      const bool lines = arguments.call.protocol == sccl::device::Protocol::ll128;
      sccl::device::gpu::launch_on_host(arguments, grid, lines ? kLineThreads : kThreads, shared_bytes);
      if (lines) state().line_kernels.fetch_add(1);
      working->worked_us += arguments.call.protocol == sccl::device::Protocol::ll ? state().ll_us : state().simple_us;
      ran();
    });
  return kSuccess;
}

}  // extern "C"
#pragma GCC visibility pop
