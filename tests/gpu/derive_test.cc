// Communicators from communicators on devices: what their making allocates must wait for no kernel that waits for a
// rank that is making one.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "gpu/failures.h"

using namespace api_test;
using namespace gpu_test;

namespace {

// Several calls at once after a communicator was made, so that a rank that is ahead has kernels that wait. "" or what
// is wrong.
std::string works(ncclComm_t comm, int ranks, const OnDevice& device) {
  std::vector<float> data(3000, 1);
  std::string wrong;
  float wanted = 1;
  for (int call = 0; call < 3; ++call) {
    wrong += reduce(comm, device.stream(), data, data.size());
    wanted *= static_cast<float>(ranks);
  }
  device.synchronize();
  return data[2999] == wanted ? wrong : wrong + " wrong sum " + std::to_string(data[2999]);
}

}  // namespace

TEST_CASE("ranks of a shrunk communicator call it and its parent at once") {
  for (int round = 0; round < 3; ++round) {
    std::atomic<int> shrunk{0};
    CHECK(failures(run_device_world(Mode::threads, 4, [&](int rank, ncclComm_t comm, const OnDevice& device) {
            int out = 3;
            ncclComm_t rest = nullptr;
            std::string wrong = works(comm, 4, device);
            if (rank != out && ncclCommShrink(comm, &out, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT) != ncclSuccess)
              wrong += told();
            if (rank != out) {
              ++shrunk;
              wrong += works(rest, 3, device);
            }
            // Calls of the parent beside a shrink are not allowed.
            while (rank == out && shrunk < 3) std::this_thread::yield();
            wrong += works(comm, 4, device);
            if (rest != nullptr) ncclCommDestroy(rest);
            return wrong;
          })) == "");
  }
}

TEST_CASE("a shrink that aborts ends kernels that wait for the rank that is left out") {
  std::atomic<int> over{0};
  const auto results = run_bare_world(Mode::threads, 3, [&](int rank, const ncclUniqueId& id) -> std::string {
    const OnDevice device;
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 3, id, rank) != ncclSuccess) return told();
    std::string wrong;
    int out = 2;
    if (rank != out) {
      std::vector<float> data(3000, 1);
      wrong += reduce(comm, device.stream(), data, data.size());  // never ends by itself
      ncclComm_t rest = nullptr;
      if (ncclCommShrink(comm, &out, 1, &rest, nullptr, NCCL_SHRINK_ABORT) != ncclSuccess) return wrong + told();
      wrong += works(rest, 2, device);
      ncclCommDestroy(rest);
    }
    ++over;
    while (over < 3) std::this_thread::yield();
    ncclCommAbort(comm);
    return wrong;
  });
  CHECK(failures(results) == "");
}

TEST_CASE("ranks of a grown communicator call it and the old one at once") {
  std::atomic<bool> has_id{false};
  ncclUniqueId grow_id;
  CHECK(failures(run_bare_world(Mode::threads, 4, [&](int rank, const ncclUniqueId& id) -> std::string {
          const OnDevice device;
          ncclComm_t old = nullptr, grown = nullptr;
          if (rank < 2) {
            if (ncclCommInitRank(&old, 2, id, rank) != ncclSuccess) return told();
            if (rank == 0 && ncclCommGetUniqueId(old, &grow_id) != ncclSuccess) return told();
            if (rank == 0) has_id = true;
            if (ncclCommGrow(old, 4, rank == 0 ? &grow_id : nullptr, -1, &grown, nullptr) != ncclSuccess) return told();
          } else {
            while (!has_id) std::this_thread::yield();
            if (ncclCommGrow(nullptr, 4, &grow_id, rank, &grown, nullptr) != ncclSuccess) return told();
          }
          std::string wrong = works(grown, 4, device);
          if (old != nullptr) wrong += works(old, 2, device);
          wrong += works(grown, 4, device);
          if (ncclCommDestroy(grown) != ncclSuccess) wrong += told();
          if (old != nullptr && ncclCommDestroy(old) != ncclSuccess) wrong += told();
          return wrong;
        })) == "");
}
