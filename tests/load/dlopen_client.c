/* Finds NCCL by name at run time, as TensorFlow and XGBoost do, uses it from two threads, and closes it again. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "nccl_shim/nccl.h"

typedef ncclResult_t (*GetUniqueId)(ncclUniqueId*);
typedef ncclResult_t (*InitRank)(ncclComm_t*, int, ncclUniqueId, int);
typedef ncclResult_t (*AllReduce)(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t);
typedef ncclResult_t (*Destroy)(ncclComm_t);

static void* library;
static ncclUniqueId id;

static void* symbol(const char* name) {
  void* address = dlsym(library, name);
  if (!address) fprintf(stderr, "no %s\n", name);
  return address;
}

static void* run_rank(void* argument) {
  const int rank = *(const int*)argument;
  const InitRank init = (InitRank)symbol("ncclCommInitRank");
  const AllReduce all_reduce = (AllReduce)symbol("pncclAllReduce");
  const Destroy destroy = (Destroy)symbol("ncclCommDestroy");
  ncclComm_t comm = NULL;
  int value = rank + 1;
  if (init(&comm, 2, id, rank) != ncclSuccess) return "init failed";
  if (all_reduce(&value, &value, 1, ncclInt32, ncclSum, comm, NULL) != ncclSuccess) return "all-reduce failed";
  if (value != 3) return "wrong sum";
  if (destroy(comm) != ncclSuccess) return "destroy failed";
  return NULL;
}

int main(void) {
  library = dlopen("libnccl.so.2", RTLD_LAZY);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const GetUniqueId get_id = (GetUniqueId)symbol("ncclGetUniqueId");
  if (!get_id || get_id(&id) != ncclSuccess) return 1;
  pthread_t threads[2];
  int ranks[2] = {0, 1};
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, run_rank, &ranks[i]);
  int failed = 0;
  for (int i = 0; i < 2; ++i) {
    void* result = NULL;
    pthread_join(threads[i], &result);
    if (result) {
      fprintf(stderr, "rank %d: %s\n", i, (const char*)result);
      failed = 1;
    }
  }
  dlclose(library);
  return failed;
}
