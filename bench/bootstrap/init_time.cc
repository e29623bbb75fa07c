// How long ncclCommInitRank takes: of each communicator the slowest rank's time. A rank is one process.
// Usage: init_time FILE RANK RANKS COUNT   (FILE: by which rank 0 passes the first id on; the others wait for it)
#include <nccl_shim/nccl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace {

void check(ncclResult_t result) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "%s\n", ncclGetLastError(nullptr));
  std::exit(1);
}

ncclUniqueId first_id(const std::string& file, int rank) {
  ncclUniqueId id;
  if (rank == 0) {
    check(ncclGetUniqueId(&id));
    std::ofstream(file + ".new", std::ios::binary).write(id.internal, sizeof id.internal);
    if (std::rename((file + ".new").c_str(), file.c_str()) != 0) std::exit(1);
    return id;
  }
  while (!std::ifstream(file, std::ios::binary).read(id.internal, sizeof id.internal)) ::usleep(1000);
  return id;
}

}  // namespace

int main(int, char** arguments) {
  const int rank = std::atoi(arguments[2]);
  const int ranks = std::atoi(arguments[3]);
  const int count = std::atoi(arguments[4]);
  ncclUniqueId id = first_id(arguments[1], rank);
  std::vector<double> times;
  for (int made = 0; made < count; ++made) {
    ncclComm_t comm = nullptr;
    const auto begin = std::chrono::steady_clock::now();
    check(ncclCommInitRank(&comm, ranks, id, rank));
    double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    check(ncclAllReduce(&ms, &ms, 1, ncclFloat64, ncclMax, comm, nullptr));
    times.push_back(ms);
    // The next communicator's id also makes all ranks begin together.
    if (rank == 0) check(ncclGetUniqueId(&id));
    check(ncclBroadcast(&id, &id, sizeof id, ncclInt8, 0, comm, nullptr));
    check(ncclCommDestroy(comm));
  }
  if (rank != 0) return 0;
  std::vector<double> later(times.begin() + 1, times.end());
  std::sort(later.begin(), later.end());
  std::printf("| %d | %.0f | %.0f (%.0f-%.0f) |\n", ranks, times.front(), later[later.size() / 2], later.front(),
              later.back());
}
