// The fake driver itself: that it is as strict as a real one may be. What the library is spared here it would meet on
// the first device.
#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <thread>

#include "gpu/failures.h"

using namespace gpu_test;

namespace {

// Work that does not end until it is let go: a stream that waits for a value.
class Stalled {
 public:
  explicit Stalled(void* stream) {
    REQUIRE(cuMemHostAlloc(&word_, 64, 3) == 0);
    stall(stream);
  }
  ~Stalled() {
    let_go();
    for (void* const stream : streams_) cuStreamSynchronize(stream);
    cuMemFreeHost(word_);
  }
  Stalled(const Stalled&) = delete;
  Stalled& operator=(const Stalled&) = delete;

  void stall(void* stream) {
    streams_.push_back(stream);
    REQUIRE(cuStreamWaitValue32_v2(stream, reinterpret_cast<unsigned long long>(word_), 1, 1) == 0);
  }
  void* word() const { return word_; }
  void let_go() { __atomic_store_n(static_cast<unsigned*>(word_), 1, __ATOMIC_SEQ_CST); }

 private:
  void* word_ = nullptr;
  std::vector<void*> streams_;
};

bool is_done(void* event) { return cuEventQuery(event) == 0; }

void wait_a_moment() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

bool comes(void* event) {
  for (int pauses = 0; pauses < 20000 && !is_done(event); ++pauses) wait_a_moment();
  return is_done(event);
}

}  // namespace

TEST_CASE("calls that allocate, free and fill wait for the whole context, and say so when it does not end") {
  const OnDevice device;
  unsigned long long memory = 0, more = 0;
  void* host = nullptr;
  REQUIRE(cuMemAlloc_v2(&memory, 100) == 0);
  REQUIRE(cuMemHostAlloc(&host, 100, 3) == 0);
  fake_cuda_tolerate_stuck(50);
  {
    const Stalled stalled(device.stream());
    void* other = nullptr;
    REQUIRE(cuStreamCreate(&other, 1) == 0);
    CHECK(cuMemAlloc_v2(&more, 100) == 702);
    CHECK(cuMemFree_v2(memory) == 702);
    CHECK(cuMemFreeHost(host) == 702);
    CHECK(cuMemsetD8Async(memory, 0, 10, other) == 702);
    const std::string stuck = fake_cuda_stuck();
    for (const char* call : {"cuMemAlloc_v2", "cuMemFree_v2", "cuMemFreeHost", "cuMemsetD8Async"})
      CHECK(contains(stuck, std::string(call) + " waits for all work of device 0, where a wait for a value"));
    fake_cuda_set_strict(0);
    CHECK(cuMemAlloc_v2(&more, 100) == 0);
    fake_cuda_set_strict(1);
    cuStreamDestroy_v2(other);
  }
  fake_cuda_tolerate_stuck(0);
  CHECK(cuMemFree_v2(memory) == 0);
  CHECK(cuMemFree_v2(more) == 0);
  CHECK(cuMemFreeHost(host) == 0);
}

TEST_CASE("streams share hardware queues, where what cannot begin holds up what stands behind it") {
  for (const int queues : {1, 2}) {
    INFO(queues);
    fake_cuda_set_connections(queues);
    const OnDevice device;
    void *other = nullptr, *event = nullptr;
    REQUIRE(cuStreamCreate(&other, 1) == 0);
    REQUIRE(cuEventCreate(&event, 2) == 0);
    {
      Stalled stalled(device.stream());
      unsigned let_go = 7;  // when the other stream's work ran
      REQUIRE(cuMemcpyDtoDAsync_v2(reinterpret_cast<unsigned long long>(&let_go),
                                   reinterpret_cast<unsigned long long>(stalled.word()), 4, other) == 0);
      REQUIRE(cuEventRecord(event, other) == 0);
      if (queues == 2) CHECK(comes(event));
      for (int pauses = 0; pauses < 50; ++pauses) wait_a_moment();
      stalled.let_go();
      cuStreamSynchronize(other);
      CHECK(is_done(event));
      CHECK(let_go == (queues == 2 ? 0 : 1));
    }
    cuEventDestroy_v2(event);
    cuStreamDestroy_v2(other);
  }
  fake_cuda_set_connections(8);
}

TEST_CASE("events and streams belong to their context") {
  fake_cuda_set_devices(2);
  void *event = nullptr, *stream = nullptr;
  const OnDevice first(0);
  REQUIRE(cuEventCreate(&event, 2) == 0);
  {
    const OnDevice second(1);
    CHECK(cuEventRecord(event, second.stream()) == 400);
    CHECK(cuEventRecord(event, first.stream()) == 0);
  }
  void* current = nullptr;
  cuCtxGetCurrent(&current);
  cuCtxSetCurrent(nullptr);
  CHECK(cuStreamCreate(&stream, 1) == 201);
  cuCtxSetCurrent(current);
  cuEventDestroy_v2(event);
  fake_cuda_set_devices(1);
}

TEST_CASE("captured events refuse to be asked, and a capture makes the default stream unusable") {
  const OnDevice device;
  void *blocking = nullptr, *event = nullptr, *graph = nullptr;
  REQUIRE(cuStreamCreate(&blocking, 0) == 0);
  REQUIRE(cuEventCreate(&event, 2) == 0);
  cuStreamBeginCapture_v2(device.stream(), 2);
  REQUIRE(cuEventRecord(event, device.stream()) == 0);
  CHECK(cuEventQuery(event) == 907);
  int status = 0;
  CHECK(cuStreamIsCapturing(nullptr, &status) == 0);  // that one waits for nobody
  CHECK(cuStreamEndCapture(device.stream(), &graph) == 901);
  CHECK(graph == nullptr);

  cuStreamBeginCapture_v2(blocking, 2);
  std::thread([&] {
    const OnDevice here;
    CHECK(cuStreamIsCapturing(nullptr, &status) == 906);
    CHECK(cuStreamIsCapturing(here.stream(), &status) == 0);
  }).join();
  CHECK(cuStreamEndCapture(blocking, &graph) == 0);
  cuGraphDestroy(graph);
  cuStreamBeginCapture_v2(blocking, 2);
  CHECK(cuEventRecord(event, nullptr) == 906);
  CHECK(cuStreamEndCapture(blocking, &graph) == 901);
  cuGraphDestroy(graph);
  cuEventDestroy_v2(event);
  cuStreamDestroy_v2(blocking);
  fake_cuda_reset_calls();
}

TEST_CASE("after a fault every call of the context fails, of the other contexts none") {
  fake_cuda_set_devices(2);
  const OnDevice first(0);
  unsigned long long memory = 0;
  REQUIRE(cuMemAlloc_v2(&memory, 100) == 0);
  fake_cuda_fault(0);
  CHECK(cuStreamSynchronize(first.stream()) == 700);
  CHECK(cuMemFree_v2(memory) == 700);
  {
    const OnDevice second(1);
    CHECK(cuStreamSynchronize(second.stream()) == 0);
  }
  fake_cuda_recover(0);
  CHECK(cuMemFree_v2(memory) == 0);
  fake_cuda_set_devices(1);
}

TEST_CASE("virtual memory is open to a device when it was asked for, for that device alone, and not before") {
  constexpr unsigned long kBytes = 65536;
  fake_cuda_set_devices(3);
  {
    const OnDevice device(0);
    unsigned long long handle = 0, address = 0;
    const int properties[8] = {1, 1, 1, 0};  // pinned, by descriptor, of device 0
    REQUIRE(cuMemCreate(&handle, kBytes, properties, 0) == 0);
    REQUIRE(cuMemAddressReserve(&address, kBytes, 0, 0, 0) == 0);
    REQUIRE(cuMemMap(address, kBytes, 0, handle, 0) == 0);
    const auto open_to = [&](int which) {
      const int access[3] = {1, which, 3};
      return cuMemSetAccess(address, kBytes, access, 1);
    };
    const auto users = [&] {
      std::string text;
      for (int which = 0; which < 3; ++which) text += fake_cuda_may_use(which, address + 100) != 0 ? "y" : "n";
      return text;
    };
    CHECK(users() == "nnn");  // not even to its own
    CHECK(open_to(0) == 0);
    CHECK(users() == "ynn");
    CHECK(open_to(2) == 0);
    CHECK(users() == "yny");
    fake_cuda_set_peer_access(kFakeNoPeerAccess);
    CHECK(open_to(1) == 217);
    fake_cuda_set_peer_access(kFakePeerAccess);
    CHECK(users() == "yny");
    CHECK(cuMemUnmap(address, kBytes) == 0);
    CHECK(open_to(0) == 1);  // there is nothing any more
    CHECK(cuMemAddressFree(address, kBytes) == 0);
    CHECK(cuMemRelease(handle) == 0);
  }
  fake_cuda_set_devices(1);
}

TEST_CASE("memory of cuMemAlloc is open to its own device, and to another one when that asked for access") {
  fake_cuda_set_devices(2);
  void* second = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain(&second, 1) == 0);
  {
    const OnDevice on_first(0);
    unsigned long long memory = 0;
    void* first = nullptr;
    cuCtxGetCurrent(&first);
    cuCtxSetCurrent(second);
    REQUIRE(cuMemAlloc_v2(&memory, 100) == 0);
    CHECK(fake_cuda_may_use(1, memory) == 1);
    CHECK(fake_cuda_may_use(0, memory) == 0);
    cuCtxSetCurrent(first);
    CHECK(cuCtxEnablePeerAccess(second, 0) == 0);
    CHECK(fake_cuda_may_use(0, memory) == 1);
    CHECK(cuCtxEnablePeerAccess(second, 0) == 704);  // already
    cuCtxSetCurrent(second);
    CHECK(cuMemFree_v2(memory) == 0);
    cuCtxSetCurrent(first);
  }
  cuDevicePrimaryCtxRelease_v2(1);
  fake_cuda_set_devices(1);
}

TEST_CASE("host memory is registered by whole pages that are mapped, each page once") {
  constexpr std::size_t kPage = 4096;
  const OnDevice device;
  void* const mapped = ::mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto* const pages = static_cast<char*>(mapped);
  CHECK(cuMemHostRegister_v2(pages + kPage, 100, 3) == 0);
  CHECK(cuMemHostRegister_v2(pages + kPage, 100, 3) == 712);
  CHECK(cuMemHostRegister_v2(pages, kPage + 1, 3) == 712);
  CHECK(cuMemHostRegister_v2(pages, kPage, 3) == 0);
  CHECK(cuMemHostRegister_v2(pages + 2 * kPage, kPage, 3) == 0);
  for (std::size_t page = 0; page < 3; ++page) CHECK(cuMemHostUnregister(pages + page * kPage) == 0);
  CHECK(cuMemHostUnregister(pages) == 713);
  CHECK(cuMemHostRegister_v2(pages + 3 * kPage, kPage, 3) == 0);
  fake_cuda_reset_calls();
  ::munmap(mapped, 4 * kPage);
  CHECK(cuMemHostRegister_v2(pages, kPage, 3) == 1);
  CHECK(cuMemHostUnregister(pages + 3 * kPage) == 0);
  CHECK(fake_cuda_violations() == 1);  // unmapped before
  fake_cuda_reset_calls();
}

TEST_CASE("a context goes with its last owner, and takes along what was made in it") {
  fake_cuda_set_devices(8);
  const std::string before = fake_cuda_live_text();
  void *context = nullptr, *current = nullptr, *made = nullptr;
  unsigned long long memory = 0;
  cuCtxGetCurrent(&current);
  REQUIRE(cuDevicePrimaryCtxRetain(&context, 7) == 0);
  REQUIRE(cuDevicePrimaryCtxRetain(&context, 7) == 0);
  cuCtxSetCurrent(context);
  REQUIRE(cuMemAlloc_v2(&memory, 100) == 0);
  REQUIRE(cuStreamCreate(&made, 1) == 0);
  REQUIRE(cuEventCreate(&made, 2) == 0);
  CHECK(cuDevicePrimaryCtxRelease_v2(7) == 0);
  CHECK(cuEventQuery(made) == 0);
  CHECK(cuDevicePrimaryCtxRelease_v2(7) == 0);
  CHECK(std::string(fake_cuda_live_text()) == before);
  CHECK(cuMemAlloc_v2(&memory, 100) == 709);
  CHECK(fake_cuda_violations() == 1);
  CHECK(cuDevicePrimaryCtxRelease_v2(7) == 201);
  cuCtxSetCurrent(current);
  fake_cuda_reset_calls();
  fake_cuda_set_devices(1);
}

TEST_CASE("the work of a destroyed stream goes on, and the next stream gets its handle") {
  const OnDevice device;
  void *first = nullptr, *second = nullptr, *event = nullptr;
  unsigned long long ids[2] = {0, 0};
  REQUIRE(cuEventCreate(&event, 2) == 0);
  REQUIRE(cuStreamCreate(&first, 1) == 0);
  REQUIRE(cuStreamGetId(first, &ids[0]) == 0);
  void* word = nullptr;
  REQUIRE(cuMemHostAlloc(&word, 64, 3) == 0);
  REQUIRE(cuStreamWaitValue32_v2(first, reinterpret_cast<unsigned long long>(word), 1, 1) == 0);
  REQUIRE(cuEventRecord(event, first) == 0);
  CHECK(cuStreamDestroy_v2(first) == 0);
  CHECK(cuStreamSynchronize(first) == 400);
  REQUIRE(cuStreamCreate(&second, 1) == 0);
  CHECK(second == first);
  CHECK(cuStreamGetId(second, &ids[1]) == 0);
  CHECK(ids[0] != ids[1]);
  CHECK(cuStreamSynchronize(second) == 0);
  CHECK_FALSE(is_done(event));
  __atomic_store_n(static_cast<unsigned*>(word), 1, __ATOMIC_SEQ_CST);
  CHECK(comes(event));
  cuMemFreeHost(word);
  cuStreamDestroy_v2(second);
  cuEventDestroy_v2(event);
}

TEST_CASE("the legacy stream and blocking streams wait for one another, and others for none of them") {
  const OnDevice device;
  void *blocking = nullptr, *legacy = nullptr, *events[3]{};
  REQUIRE(cuStreamCreate(&blocking, 0) == 0);
  for (void*& event : events) REQUIRE(cuEventCreate(&event, 2) == 0);
  {
    Stalled stalled(blocking);
    REQUIRE(cuEventRecord(events[0], legacy) == 0);
    REQUIRE(cuEventRecord(events[1], device.stream()) == 0);
    CHECK(comes(events[1]));
    CHECK_FALSE(is_done(events[0]));
  }
  CHECK(cuStreamSynchronize(legacy) == 0);
  CHECK(is_done(events[0]));
  {
    Stalled stalled(legacy);
    REQUIRE(cuEventRecord(events[2], blocking) == 0);
    REQUIRE(cuEventRecord(events[1], device.stream()) == 0);
    CHECK(comes(events[1]));
    CHECK_FALSE(is_done(events[2]));
  }
  CHECK(cuStreamSynchronize(blocking) == 0);
  for (void* const event : events) cuEventDestroy_v2(event);
  cuStreamDestroy_v2(blocking);
}

TEST_CASE("a call that a capture forbids spoils it, and calls need a context") {
  const OnDevice device;
  unsigned long long memory = 0;
  void* graph = &memory;
  REQUIRE(cuStreamBeginCapture_v2(device.stream(), 0) == 0);
  CHECK(cuStreamBeginCapture_v2(device.stream(), 0) == 401);
  CHECK(cuMemAlloc_v2(&memory, 10) == 900);
  CHECK(cuMemsetD8Async(reinterpret_cast<unsigned long long>(&memory), 0, 4, device.stream()) == 901);
  CHECK(cuStreamEndCapture(device.stream(), &graph) == 901);
  CHECK(graph == nullptr);
  CHECK(cuStreamEndCapture(device.stream(), &graph) == 401);
  CHECK(cuStreamBeginCapture_v2(nullptr, 0) == 900);
  void* current = nullptr;
  cuCtxGetCurrent(&current);
  cuCtxSetCurrent(nullptr);
  CHECK(cuMemAlloc_v2(&memory, 10) == 201);
  CHECK(cuStreamSynchronize(device.stream()) == 201);
  cuCtxSetCurrent(current);
  fake_cuda_reset_calls();
}
