// AllReduce of this library against the MPI that started the program: same processes, same buffers, calls in turn.
// Built and run by bench/host/run.sh, once for each MPI.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "nccl_shim/nccl.h"

namespace {

using Clock = std::chrono::steady_clock;

void check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, ncclGetLastError(nullptr));
  MPI_Abort(MPI_COMM_WORLD, 1);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Microseconds a call, the slowest rank's.
double time_calls(int calls, const std::function<void()>& call) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = Clock::now();
  for (int i = 0; i < calls; ++i) call();
  double mine = std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / calls;
  double slowest = 0;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

int calls_for(std::size_t bytes) {
  if (bytes <= 1024) return 2000;
  if (bytes <= 65536) return 300;
  if (bytes <= (1u << 20)) return 30;
  return 3;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  ncclUniqueId id;
  if (rank == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  ncclComm_t comm = nullptr;
  check(ncclCommInitRank(&comm, ranks, id, rank), "ncclCommInitRank");

  const std::size_t largest = std::size_t{64} << 20;
  std::vector<float> send(largest / sizeof(float), 1.0f);
  std::vector<float> recv(largest / sizeof(float));
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(version, &length);
  *std::find(version, version + length, '\n') = '\0';  // what follows is how it was built
  const int repeats = argc > 1 ? std::atoi(argv[1]) : 9;
  if (rank == 0) {
    std::printf("%s\nAllReduce float sum, %d processes, medians of %d interleaved repeats\n", version, ranks, repeats);
    std::printf("%12s %14s %14s %10s\n", "bytes", "MPI us", "sccl us", "MPI/sccl");
  }
  const std::size_t most = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : largest;
  for (const std::size_t bytes : {4ul, 8ul, 64ul, 256ul, 1024ul, 4096ul, 16384ul, 65536ul, 262144ul, 1048576ul, 4194304ul, 16777216ul, largest}) {
    if (bytes > most) break;
    const int count = static_cast<int>(bytes / sizeof(float));
    const auto mpi = [&] { MPI_Allreduce(send.data(), recv.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); };
    const auto sccl = [&] {
      check(ncclAllReduce(send.data(), recv.data(), static_cast<std::size_t>(count), ncclFloat32, ncclSum, comm, nullptr),
            "ncclAllReduce");
    };
    mpi();
    sccl();
    std::vector<double> mpi_us;
    std::vector<double> sccl_us;
    std::vector<double> ratios;
    for (int repeat = 0; repeat < repeats; ++repeat) {
      mpi_us.push_back(time_calls(calls_for(bytes), mpi));
      sccl_us.push_back(time_calls(calls_for(bytes), sccl));
      ratios.push_back(mpi_us.back() / sccl_us.back());
    }
    if (rank == 0)
      std::printf("%12zu %14.2f %14.2f %10.2f\n", bytes, median(mpi_us), median(sccl_us), median(ratios));
  }
  check(ncclCommDestroy(comm), "ncclCommDestroy");
  MPI_Finalize();
  return 0;
}
