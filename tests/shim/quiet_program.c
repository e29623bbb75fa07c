/* A program as they were before NCCL had ncclGetLastError: it sees numbers only. With an argument it asks. */
#include <stdio.h>
#include <string.h>

#include "nccl_shim/nccl.h"

int main(void) {
  ncclUniqueId id;
  memset(&id, 7, sizeof id);
  ncclComm_t comm = NULL;
  int failed = 0;
  for (int i = 0; i < 3; ++i) failed += ncclCommInitRank(&comm, 2, id, 5) != ncclSuccess;
  failed += ncclCommCount(NULL, &failed) != ncclSuccess;
#ifdef ASKS
  fprintf(stderr, "asked: %s\n", ncclGetLastError(NULL));
#endif
  return failed == 0;
}
