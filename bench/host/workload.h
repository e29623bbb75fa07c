// One collective of floats on one pair of buffers, called through MPI or through libsccl. Bytes are those of the larger
// buffer, as nccl-tests count them: what every rank has of AllReduce and Broadcast, what a rank has in the end of
// AllGather and in the beginning of ReduceScatter.
#pragma once

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "nccl_shim/nccl.h"

namespace bench {

inline void require(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, ncclGetLastError(nullptr));
  MPI_Abort(MPI_COMM_WORLD, 1);
}

struct World {
  int rank = 0;
  int ranks = 1;
  long cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  ncclComm_t comm = nullptr;

  // libsccl's barrier.
  void join() const {
    int one = 1;
    require(ncclAllReduce(&one, &one, 1, ncclInt32, ncclSum, comm, nullptr), "ncclAllReduce");
  }
  bool first() const { return rank == 0; }
  double slowest(double mine) const {
    double result = 0;
    MPI_Allreduce(&mine, &result, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return result;
  }
};

// Whole pages, all of them touched.
class Buffer {
 public:
  // `registered`: memory of ncclMemAlloc.
  Buffer(std::size_t bytes, bool registered) : registered_(registered) {
    const std::size_t whole_pages = (bytes + kPage - 1) / kPage * kPage;
    void* memory = nullptr;
    if (registered)
      require(ncclMemAlloc(&memory, whole_pages), "ncclMemAlloc");
    else
      memory = std::aligned_alloc(kPage, whole_pages);
    data_ = static_cast<float*>(memory);
    if (data_ == nullptr) {
      std::fprintf(stderr, "no %zu bytes of memory for each buffer: give smaller --sizes\n", bytes);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    std::fill_n(data_, bytes / sizeof(float), 0.0f);
  }
  ~Buffer() {
    if (registered_)
      ncclMemFree(data_);
    else
      std::free(data_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  float* data() const { return data_; }

 private:
  static constexpr std::size_t kPage = 4096;
  bool registered_;
  float* data_;
};

// Broadcasts from one root may overlap: it runs ahead of the others. With a root that moves on from call to call, as in
// the Intel MPI Benchmarks, they cannot.
// sendrecv: every rank exchanges with the one half of the ranks further, which is on the other one of two hosts.
enum class Kind { all_reduce, all_gather, reduce_scatter, broadcast, broadcast_moving, alltoall, sendrecv };
inline constexpr const char* kKindNames[] = {"all_reduce",       "all_gather", "reduce_scatter", "broadcast",
                                             "broadcast_moving", "alltoall",   "sendrecv"};

class Workload {
 public:
  // `bytes` is rounded down to whole elements for each rank, but not to none.
  Workload(const World& world, Kind kind, std::size_t bytes, float* send, float* recv)
      : world_(world), kind_(kind), send_(send), recv_(recv) {
    const bool is_divided = kind == Kind::all_gather || kind == Kind::reduce_scatter || kind == Kind::alltoall;
    shares_ = is_divided ? static_cast<std::size_t>(world.ranks) : 1;
    count_ = std::max<std::size_t>(1, bytes / sizeof(float) / shares_);
    sent_ = kind == Kind::reduce_scatter || kind == Kind::alltoall ? count_ * shares_ : count_;
    received_ = kind == Kind::all_gather || kind == Kind::alltoall ? count_ * shares_ : count_;
    clear();
  }

  std::size_t bytes() const { return count_ * shares_ * sizeof(float); }

  void call_mpi() {
    const int count = static_cast<int>(count_);
    switch (kind_) {
      case Kind::all_reduce:
        MPI_Allreduce(send_, recv_, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case Kind::all_gather:
        MPI_Allgather(send_, count, MPI_FLOAT, recv_, count, MPI_FLOAT, MPI_COMM_WORLD);
        break;
      case Kind::reduce_scatter:
        MPI_Reduce_scatter_block(send_, recv_, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case Kind::broadcast:
      case Kind::broadcast_moving:
        MPI_Bcast(send_, count, MPI_FLOAT, next_root(), MPI_COMM_WORLD);
        break;
      case Kind::alltoall:
        MPI_Alltoall(send_, count, MPI_FLOAT, recv_, count, MPI_FLOAT, MPI_COMM_WORLD);
        break;
      case Kind::sendrecv:
        MPI_Sendrecv(send_, count, MPI_FLOAT, partner(1), 0, recv_, count, MPI_FLOAT, partner(-1), 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        break;
    }
  }

  void call_sccl() {
    switch (kind_) {
      case Kind::all_reduce:
        return require(ncclAllReduce(send_, recv_, count_, ncclFloat32, ncclSum, world_.comm, nullptr),
                       "ncclAllReduce");
      case Kind::all_gather:
        return require(ncclAllGather(send_, recv_, count_, ncclFloat32, world_.comm, nullptr), "ncclAllGather");
      case Kind::reduce_scatter:
        return require(ncclReduceScatter(send_, recv_, count_, ncclFloat32, ncclSum, world_.comm, nullptr),
                       "ncclReduceScatter");
      case Kind::broadcast:
      case Kind::broadcast_moving:  // in place, as MPI's is
        return require(ncclBroadcast(send_, send_, count_, ncclFloat32, next_root(), world_.comm, nullptr),
                       "ncclBroadcast");
      case Kind::alltoall:
        return require(ncclAlltoAll(send_, recv_, count_, ncclFloat32, world_.comm, nullptr), "ncclAlltoAll");
      case Kind::sendrecv:
        require(ncclGroupStart(), "ncclGroupStart");
        require(ncclSend(send_, count_, ncclFloat32, partner(1), world_.comm, nullptr), "ncclSend");
        require(ncclRecv(recv_, count_, ncclFloat32, partner(-1), world_.comm, nullptr), "ncclRecv");
        return require(ncclGroupEnd(), "ncclGroupEnd");
    }
  }

  // After a call of either library: a wrong result makes every figure worthless.
  void check(const char* library) const {
    const float* const result = broadcasts() ? send_ : recv_;
    const std::size_t stride = received_ > kCheckedWhole ? 61 : 1;
    for (std::size_t i = 0; i < received_; i += stride)
      if (result[i] != expected(i)) fail(library, i, result[i]);
    if (result[received_ - 1] != expected(received_ - 1)) fail(library, received_ - 1, result[received_ - 1]);
  }
  // So that only a call can have made the result.
  void clear() {
    root_ = 0;
    std::fill_n(recv_, received_, -1.0f);
    const bool has_data = !broadcasts() || world_.rank == 0;
    for (std::size_t i = 0; i < sent_; ++i) send_[i] = has_data ? value(world_.rank, i) : -1.0f;
  }

 private:
  static constexpr std::size_t kCheckedWhole = std::size_t{1} << 18;

  bool broadcasts() const { return kind_ == Kind::broadcast || kind_ == Kind::broadcast_moving; }

  int partner(int direction) const {
    return (world_.rank + direction * std::max(1, world_.ranks / 2) + world_.ranks) % world_.ranks;
  }

  int next_root() {
    const int root = root_;
    if (kind_ == Kind::broadcast_moving) root_ = (root_ + 1) % world_.ranks;
    return root;
  }

  // Small whole numbers: sums are exact in any order.
  static float value(int rank, std::size_t at) {
    return static_cast<float>((at + static_cast<std::size_t>(rank) * 5) % 17);
  }

  float sum(std::size_t at) const {
    float result = 0;
    for (int rank = 0; rank < world_.ranks; ++rank) result += value(rank, at);
    return result;
  }

  float expected(std::size_t at) const {
    switch (kind_) {
      case Kind::all_reduce:
        return sum(at);
      case Kind::all_gather:
        return value(static_cast<int>(at / count_), at % count_);
      case Kind::reduce_scatter:
        return sum(static_cast<std::size_t>(world_.rank) * count_ + at);
      case Kind::broadcast:
      case Kind::broadcast_moving:
        return value(0, at);
      case Kind::alltoall:
        return value(static_cast<int>(at / count_), static_cast<std::size_t>(world_.rank) * count_ + at % count_);
      case Kind::sendrecv:
        return value(partner(-1), at);
    }
    return 0;
  }

  void fail(const char* library, std::size_t at, float found) const {
    std::fprintf(stderr, "%s of %zu bytes by %s: rank %d has %g instead of %g at %zu\n",
                 kKindNames[static_cast<int>(kind_)], bytes(), library, world_.rank, static_cast<double>(found),
                 static_cast<double>(expected(at)), at);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

  const World& world_;
  Kind kind_;
  float* send_;
  float* recv_;
  int root_ = 0;
  std::size_t shares_ = 1;
  std::size_t count_ = 1;
  std::size_t sent_ = 1;
  std::size_t received_ = 1;
};

}  // namespace bench
