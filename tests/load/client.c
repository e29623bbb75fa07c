/* An ordinary NCCL program: three processes sum a vector. It knows nothing of the library that serves it. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include NCCL_HEADER

enum { kRanks = 3, kCount = 100003 };

static int check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return 0;
  fprintf(stderr, "%s: %s (%s)\n", what, ncclGetErrorString(result), ncclGetLastError(NULL));
  return 1;
}

static int run_rank(int rank, ncclUniqueId id) {
  ncclComm_t comm;
  if (check(ncclCommInitRank(&comm, kRanks, id, rank), "ncclCommInitRank")) return 1;
  float* data = malloc(kCount * sizeof(float));
  for (int i = 0; i < kCount; ++i) data[i] = (float)(i % 10 + rank);
  if (check(ncclAllReduce(data, data, kCount, ncclFloat32, ncclSum, comm, NULL), "ncclAllReduce")) return 1;
  for (int i = 0; i < kCount; ++i)
    if (data[i] != (float)(kRanks * (i % 10) + 3)) {
      fprintf(stderr, "rank %d: element %d is %f\n", rank, i, (double)data[i]);
      return 1;
    }
  free(data);
  return check(ncclCommDestroy(comm), "ncclCommDestroy");
}

int main(void) {
  int version = 0;
  if (check(ncclGetVersion(&version), "ncclGetVersion")) return 1;
  ncclUniqueId id;
  if (check(ncclGetUniqueId(&id), "ncclGetUniqueId")) return 1;
  pid_t children[kRanks];
  for (int rank = 0; rank < kRanks; ++rank) {
    children[rank] = fork();
    if (children[rank] == 0) _exit(run_rank(rank, id));
  }
  int failed = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    int status = 0;
    waitpid(children[rank], &status, 0);
    failed |= status;
  }
  printf("NCCL version %d: %s\n", version, failed ? "failed" : "ok");
  return failed ? 1 : 0;
}
