/* A program that asks for NCCL's device interface by this library's header: it compiles, and is told on the host that
 * there is none. */
#include <stdio.h>
#include <string.h>

#include "nccl_shim/nccl_device.h"

#define EXPECT(condition)                                        \
  if (!(condition)) {                                            \
    printf("line %d: %s does not hold\n", __LINE__, #condition); \
    ++failed;                                                    \
  }

int main(void) {
  int failed = 0;
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  EXPECT(ncclGetUniqueId(&id) == ncclSuccess);
  EXPECT(ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess);
  ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
  properties.deviceApiSupport = true;
  EXPECT(ncclCommQueryProperties(comm, &properties) == ncclSuccess);
  EXPECT(properties.nRanks == 1 && properties.rank == 0);
  EXPECT(!properties.deviceApiSupport && !properties.multimemSupport);
  EXPECT(properties.ginType == NCCL_GIN_TYPE_NONE);
  EXPECT(ncclTeamLsa(comm).nRanks == 1 && ncclTeamWorld(comm).nRanks == 1);
  ncclDevCommRequirements requirements = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
  ncclDevComm device;
  EXPECT(ncclDevCommCreate(comm, &requirements, &device) == ncclInvalidUsage);
  EXPECT(strstr(ncclGetLastError(comm), "ncclDevCommCreate") != NULL);
  EXPECT(ncclCommDestroy(comm) == ncclSuccess);
  return failed != 0;
}
