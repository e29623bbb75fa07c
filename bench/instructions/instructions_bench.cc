// One rank of a job whose calls are counted by callgrind. The counted rank makes each call only after all other ranks
// are in it and asleep, so that it waits for nobody and its instructions are those of the call itself. Usage:
//   bench_instructions LIBRARY FILE RANK RANKS COUNTED CALLS BYTES
// LIBRARY is the libsccl.so to load, FILE holds what the ranks share, COUNTED is the rank that callgrind runs, CALLS is
// how many AllReduces of BYTES bytes are made; with BYTES = 0 how many communicators are made instead.
// instructions.py starts the ranks.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "nccl_shim/nccl.h"

namespace {

constexpr int kMostCalls = 4096;

// At first zero. `entered` and `ids_made` are stored with release after what they announce and loaded with acquire.
struct Shared {
  std::atomic<int> ids_made;
  std::atomic<int> entered[kMostCalls];  // ranks that are about to make this call
  ncclUniqueId ids[kMostCalls];
};

template <typename Function>
Function find(void* library, const char* name) {
  void* const found = ::dlsym(library, name);
  if (found == nullptr) {
    std::fprintf(stderr, "%s: %s\n", name, ::dlerror());
    std::exit(1);
  }
  return reinterpret_cast<Function>(found);
}

void require(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "%s: error %d\n", what, static_cast<int>(result));
  std::exit(1);
}

struct Rank {
  Shared* shared;
  int rank, ranks, counted;

  void announce(int call) const { shared->entered[call].fetch_add(1, std::memory_order_release); }
  // The counted rank comes last, when the others sleep.
  void take_turn(int call) const {
    if (rank != counted) return announce(call);
    while (shared->entered[call].load(std::memory_order_acquire) < ranks - 1) ::usleep(200);
    ::usleep(3000);
  }
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 8) {
    std::fprintf(stderr, "usage: bench_instructions LIBRARY FILE RANK RANKS COUNTED CALLS BYTES\n");
    return 2;
  }
  void* const library = ::dlopen(arguments[1], RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", ::dlerror());
    return 1;
  }
  const int file = ::open(arguments[2], O_RDWR);
  void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file < 0 || memory == MAP_FAILED) {
    std::perror(arguments[2]);
    return 1;
  }
  const Rank me{static_cast<Shared*>(memory), std::atoi(arguments[3]), std::atoi(arguments[4]),
                std::atoi(arguments[5])};
  const int calls = std::atoi(arguments[6]);
  const auto bytes = static_cast<std::size_t>(std::atol(arguments[7]));
  const auto get_id = find<decltype(&ncclGetUniqueId)>(library, "ncclGetUniqueId");
  const auto init = find<decltype(&ncclCommInitRank)>(library, "ncclCommInitRank");
  const auto destroy = find<decltype(&ncclCommDestroy)>(library, "ncclCommDestroy");
  const auto all_reduce = find<decltype(&ncclAllReduce)>(library, "ncclAllReduce");

  const auto make = [&](int number) {
    if (me.rank == 0) {
      require(get_id(&me.shared->ids[number]), "ncclGetUniqueId");
      me.shared->ids_made.store(number + 1, std::memory_order_release);
    }
    while (me.shared->ids_made.load(std::memory_order_acquire) <= number) ::usleep(200);
    ncclComm_t communicator = nullptr;
    require(init(&communicator, me.ranks, me.shared->ids[number], me.rank), "ncclCommInitRank");
    return communicator;
  };
  if (bytes == 0) {
    for (int call = 0; call < calls; ++call) {
      me.take_turn(call);
      require(destroy(make(call)), "ncclCommDestroy");
    }
    return 0;
  }
  ncclComm_t communicator = make(0);
  std::vector<char> input(bytes, 1), output(bytes);
  for (int call = 0; call < calls; ++call) {
    me.take_turn(call);
    require(all_reduce(input.data(), output.data(), bytes, ncclInt8, ncclSum, communicator, nullptr), "ncclAllReduce");
  }
  require(destroy(communicator), "ncclCommDestroy");
  return 0;
}
