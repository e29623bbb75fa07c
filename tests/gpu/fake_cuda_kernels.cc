// The fake driver's modules and kernels: what they need, and how they are run by the host.
#include <fstream>

#include "gpu/fake_cuda_state.h"
#include "platform/gpu/driver.h"

using namespace fake;
using sccl::device::gpu::CallArguments;
using sccl::device::gpu::MoveArguments;
using sccl::device::gpu::OneSidedArguments;
using sccl::device::gpu::SignalArguments;

namespace {

// What the kernel promises its compiler (fake_nvrtc.cc): how many of its blocks a multiprocessor has room for.
int blocks_of_multiprocessor(const std::string& image) {
  const std::string mark = "BLOCKS_A_MULTIPROCESSOR ";
  const std::size_t at = image.find(mark);
  return at == std::string::npos ? 0 : std::atoi(image.c_str() + at + mark.size());
}
// The compiler gives each thread as many registers as the promise allows. A kernel that promises nothing may need all
// registers, whatever its threads.
BlockNeeds needs_of(int blocks_of_multiprocessor, unsigned threads, unsigned shared_bytes) {
  constexpr int kReserved = 1024;  // by the system, of each block's shared memory
  const auto most_threads = static_cast<int>(sccl::device::gpu::kMostThreads);
  const int all = kWholeMultiprocessor.registers;
  const int registers = blocks_of_multiprocessor == 0
                            ? all
                            : static_cast<int>(threads) * (all / (blocks_of_multiprocessor * most_threads));
  return {1, static_cast<int>(threads), registers,
          static_cast<int>(sizeof(sccl::device::gpu::BlockMemory) + shared_bytes) + kReserved};
}

// A kernel that runs writes its connections back, with the addresses that they had. The driver that is played looks at
// them before a kernel knows whether another one runs, so ThreadSanitizer looks away.
#if defined(__SANITIZE_THREAD__)
__attribute__((no_sanitize("thread"), noinline))
#endif
bool reaches(int device, const sccl::device::gpu::DeviceConnection& connection) {
  const auto ring = reinterpret_cast<u64>(connection.ring), payload = reinterpret_cast<u64>(connection.payload);
  return (ring == 0 || may_use(device, ring)) && (payload == 0 || may_use(device, payload));
}

// Where a peer's memory lies that nobody has opened to the device; "": nowhere.
std::string out_of_reach(int device, const CallArguments& arguments) {
  for (unsigned i = 0; arguments.connections != nullptr && i < arguments.connections_per_channel; ++i) {
    const sccl::device::gpu::DeviceConnection& connection = arguments.connections[i];
    if (!reaches(device, connection))
      return "a ring with rank " + std::to_string(connection.peer) + " is memory that no call has opened to it";
  }
  for (unsigned rank = 0; arguments.peer_controls != nullptr && rank < arguments.ranks; ++rank)
    if (const auto words = reinterpret_cast<u64>(arguments.peer_controls[rank]); words != 0 && !may_use(device, words))
      return "the words of rank " + std::to_string(rank) + " are memory that no call has opened to it";
  return "";
}

// Without the multi-process service one process at a time runs kernels on a device.
class TurnOnDevice {
 public:
  explicit TurnOnDevice(int device) : device_(device), taken_(state().process_service == 0) {
    if (!taken_) return;
    Context& context = context_of(device);
    const std::lock_guard lock(context.turn_mutex);
    if (context.running_in_turn++ > 0) return;
    std::atomic<int>& owner = shared_turns().owner[device];
    constexpr std::chrono::milliseconds kSlice{50};
    const auto limit = std::chrono::steady_clock::now() + kSlice;
    for (int nobody = 0; !owner.compare_exchange_strong(nobody, ::getpid()); nobody = 0) {
      if (is_gone(nobody)) {
        owner.compare_exchange_strong(nobody, 0);
      } else if (std::chrono::steady_clock::now() > limit) {
        // What runs there, and perhaps only waits for this kernel, has used its slice up.
        shared_turns().burnt.fetch_add(1);
        owner.store(::getpid());
        return;
      }
      ::usleep(200);
    }
  }
  ~TurnOnDevice() {
    if (!taken_) return;
    Context& context = context_of(device_);
    const std::lock_guard lock(context.turn_mutex);
    int own = ::getpid();
    if (--context.running_in_turn == 0) shared_turns().owner[device_].compare_exchange_strong(own, 0);
  }
  TurnOnDevice(const TurnOnDevice&) = delete;
  TurnOnDevice& operator=(const TurnOnDevice&) = delete;

 private:
  // Ended, though perhaps nobody has asked for its status.
  static bool is_gone(int process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string text;
    if (!std::getline(file, text)) return true;
    const std::size_t end = text.rfind(") ");
    return end != std::string::npos && (text[end + 2] == 'Z' || text[end + 2] == 'X');
  }

  int device_;
  bool taken_;
};

}  // namespace

namespace fake {

SharedTurns& shared_turns() {
  static auto* const turns = static_cast<SharedTurns*>(
      ::mmap(nullptr, sizeof(SharedTurns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  return *turns;
}

std::chrono::milliseconds patience() { return std::chrono::milliseconds(state().patience_ms); }
void tell_no_room(const BlockNeeds& block, const std::string& kernel) {
  tell_stuck("a block of " + kernel + " with " + std::to_string(block.threads) + " threads and " +
             std::to_string(block.registers) + " registers has found no multiprocessor with so much free in " +
             std::to_string(state().patience_ms) + " ms");
}

// Before the program forks.
[[maybe_unused]] static SharedTurns& turns_at_load = shared_turns();

}  // namespace fake

#pragma GCC visibility push(default)
extern "C" {

int cuModuleLoadData(void** module, const void* image) {
  if (const int code = enter_draining("cuModuleLoadData")) return code;
  if (current == nullptr) return kInvalidContext;
  const bool ptx = std::strstr(static_cast<const char*>(image), ".version") != nullptr;  // compiled by the driver
  if (!ptx && std::memcmp(image, "FAKE ", 5) != 0) return 200;                           // invalid image
  auto* made = new Module{static_cast<const char*>(image), current_device()};
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.modules.insert(made);
  *module = made;
  return kSuccess;
}
int cuModuleUnload(void* module) {
  if (const int code = enter_unsafe("cuModuleUnload")) return code;
  if (const int code = drain_context("cuModuleUnload")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.modules.erase(static_cast<Module*>(module)) == 0) return kInvalidHandle;
  delete static_cast<Module*>(module);
  return kSuccess;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  if (const int code = enter("cuModuleGetFunction")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.modules.count(static_cast<Module*>(module)) == 0) return kInvalidHandle;
  const Module& from = *static_cast<const Module*>(module);
  if (from.image.find(name) == std::string::npos) return 500;  // not found
  s.functions.push_back(std::make_unique<Function>());
  Function& made = *s.functions.back();
  made.name = name;
  made.device = from.device;
  made.module = static_cast<Module*>(module);
  made.blocks_of_multiprocessor = blocks_of_multiprocessor(from.image);
  *function = &made;
  return kSuccess;
}
// Functions go with their module.
static bool is_there(const Function& function) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.modules.count(function.module) != 0;
}
// Functions are loaded when they are asked for or first launched, which waits for the whole context.
static int load_function(Function& function, const char* call) {
  if (function.loaded) return kSuccess;
  if (const int code = drain_context(call)) return code;
  function.loaded = true;
  return kSuccess;
}
int cuFuncLoad(void* function) {
  if (const int code = enter_unsafe("cuFuncLoad")) return code;
  return load_function(*static_cast<Function*>(function), "cuFuncLoad");
}
int cuFuncGetAttribute(int* value, int, void* function) {
  if (const int code = enter("cuFuncGetAttribute")) return code;
  *value = 0;
  return load_function(*static_cast<Function*>(function), "cuFuncGetAttribute");
}
int cuLaunchKernel(void* handle, unsigned grid, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                   unsigned shared_bytes, void* stream, void** parameters, void**) {
  if (const int code = enter("cuLaunchKernel")) return code;
  if (current == nullptr) return kInvalidContext;
  if (handle == nullptr || grid == 0 || threads == 0 || threads > 512 || shared_bytes > 44 * 1024) return kInvalidValue;
  auto& function = *static_cast<Function*>(handle);
  const auto found = stream_of(stream);
  if (!found || found->device != function.device || current_device() != function.device || !is_there(function))
    return kInvalidHandle;
  if (const int code = enter_work(stream)) return code;
  if (const int code = load_function(function, ("the first launch of " + function.name).c_str())) return code;
  const std::string& name = function.name;
  std::function<void()> body;
  const auto serves = name == "sccl_any" || name == "sccl_move_any" ? sccl::device::gpu::Serves::any_operation
                                                                    : sccl::device::gpu::Serves::one_operation;
  if (name.compare(0, 10, "sccl_move_") == 0)
    body = [=, arguments = *static_cast<const MoveArguments*>(parameters[0])] {
      sccl::device::gpu::launch_move_on_host(arguments, grid, kThreads, serves);
      work_of_kernel(arguments.elements * arguments.element_bytes);
    };
  else if (name == "sccl_signal")
    body = [arguments = *static_cast<const SignalArguments*>(parameters[0])] {
      sccl::device::gpu::launch_on_host(arguments);
    };
  else if (name == "gpu_check_spin")  // of scripts/gpu_contact.py: until its word is set
    body = [word = *static_cast<const unsigned* const*>(parameters[0])] {
      while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0) ::usleep(50);
    };
  else if (name == "gpu_check_fault")
    body = [] { fault(working->device, "a kernel stores where no memory is"); };
  else if (name == "sccl_one_sided")
    body = [=, arguments = *static_cast<const OneSidedArguments*>(parameters[0])] {
      sccl::device::gpu::launch_on_host(arguments, grid, kThreads);
    };
  else
    body = [=, arguments = *static_cast<const CallArguments*>(parameters[0])] {
      const int device = working->device;
      if (const std::string wrong = out_of_reach(device, arguments); !wrong.empty()) return fault(device, wrong);
      const bool lines = arguments.call.protocol == sccl::device::Protocol::ll128;
      const bool words = arguments.call.protocol == sccl::device::Protocol::ll;
      sccl::device::gpu::launch_on_host(arguments, grid,
                                        lines   ? kLineThreads
                                        : words ? kWordThreads
                                                : kThreads,
                                        shared_bytes, serves);
      if (lines) state().line_kernels.fetch_add(1);
      working->worked_us += arguments.call.protocol == sccl::device::Protocol::ll ? state().ll_us : state().simple_us;
    };
  found->push(Work{[body = std::move(body), name, &function,
                    needs = needs_of(function.blocks_of_multiprocessor, threads, shared_bytes)] {
                     const TurnOnDevice turn(working->device);
                     needs_of_block = needs;
                     launched_kernel = name;
                     if (!is_there(function))
                       return fault(working->device, name + " runs after its module was unloaded");
                     body();
                     State& s = state();
                     s.kernels.fetch_add(1);
                     const std::lock_guard lock(s.mutex);
                     s.launched.append(";").append(name);
                   },
                   WorkKind::kernel, name, 0});
  return kSuccess;
}
// Of attributes, the event that tells that the kernel has begun: here that all before it on its stream has ended.
int cuLaunchKernelEx(const sccl::gpu::LaunchConfig* config, void* handle, void** parameters, void** extra) {
  if (const int code = enter("cuLaunchKernelEx")) return code;
  for (unsigned i = 0; i < config->attribute_count; ++i) {
    if (config->attributes[i].kind != 12 || !is_known(config->attributes[i].event)) return kInvalidValue;
    if ((static_cast<FakeEvent*>(config->attributes[i].event)->flags & kWithoutTiming) == 0) return kInvalidValue;
    if (const int code = cuEventRecord(config->attributes[i].event, config->stream)) return code;
  }
  return cuLaunchKernel(handle, config->blocks[0], config->blocks[1], config->blocks[2], config->threads[0],
                        config->threads[1], config->threads[2], config->shared_bytes, config->stream, parameters,
                        extra);
}

}  // extern "C"
#pragma GCC visibility pop
