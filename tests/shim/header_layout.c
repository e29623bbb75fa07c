/* Prints sizes, offsets and values of the interface and compares them with the recorded ones of NCCL 2.32.3. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include NCCL_HEADER

static char text[8192];

static void line(const char* what, long value) {
  const size_t used = strlen(text);
  snprintf(text + used, sizeof text - used, "%s %ld\n", what, value);
}

#define SIZE(type) line("sizeof " #type, (long)sizeof(type))
#define OFFSET(type, field) line(#type "." #field, (long)offsetof(type, field))
#define VALUE(name) line(#name, (long)(name))

static void describe_structs(void) {
  SIZE(ncclUniqueId);
  SIZE(ncclConfig_t);
  OFFSET(ncclConfig_t, size);
  OFFSET(ncclConfig_t, magic);
  OFFSET(ncclConfig_t, version);
  OFFSET(ncclConfig_t, blocking);
  OFFSET(ncclConfig_t, cgaClusterSize);
  OFFSET(ncclConfig_t, minCTAs);
  OFFSET(ncclConfig_t, maxCTAs);
  OFFSET(ncclConfig_t, netName);
  OFFSET(ncclConfig_t, splitShare);
  OFFSET(ncclConfig_t, trafficClass);
  OFFSET(ncclConfig_t, commName);
  OFFSET(ncclConfig_t, collnetEnable);
  OFFSET(ncclConfig_t, CTAPolicy);
  OFFSET(ncclConfig_t, shrinkShare);
  OFFSET(ncclConfig_t, nvlsCTAs);
  OFFSET(ncclConfig_t, nChannelsPerNetPeer);
  OFFSET(ncclConfig_t, nvlinkCentricSched);
  OFFSET(ncclConfig_t, graphUsageMode);
  OFFSET(ncclConfig_t, numRmaCtx);
  OFFSET(ncclConfig_t, maxP2pPeers);
  OFFSET(ncclConfig_t, graphStreamOrdering);
  OFFSET(ncclConfig_t, launchOrderImplicit);
  OFFSET(ncclConfig_t, numRmaSig);
  OFFSET(ncclConfig_t, rmaEagerInit);
  OFFSET(ncclConfig_t, hostCftMode);
  OFFSET(ncclConfig_t, nvlsHostMode);
  SIZE(ncclConfigExt_t);
  OFFSET(ncclConfigExt_t, key);
  OFFSET(ncclConfigExt_t, val);
  SIZE(ncclCollConfig_t);
  OFFSET(ncclCollConfig_t, ext);
  OFFSET(ncclCollConfig_t, minCTAs);
  OFFSET(ncclCollConfig_t, maxCTAs);
  OFFSET(ncclCollConfig_t, nvlsCTAs);
  OFFSET(ncclCollConfig_t, cgaClusterSize);
  OFFSET(ncclCollConfig_t, algSelection);
  OFFSET(ncclCollConfig_t, forceAlgSelection);
  OFFSET(ncclCollConfig_t, CTAPolicy);
  OFFSET(ncclCollConfig_t, userProfilerTag);
  OFFSET(ncclCollConfig_t, launchCompletionEvent);
  SIZE(ncclEncryptionConfig_t);
  OFFSET(ncclEncryptionConfig_t, psk);
  SIZE(ncclSimInfo_t);
  OFFSET(ncclSimInfo_t, estimatedTime);
  SIZE(ncclWaitSignalDesc_t);
  OFFSET(ncclWaitSignalDesc_t, ctx);
  SIZE(ncclRedOp_t);
  SIZE(ncclResult_t);
  SIZE(ncclDataType_t);
}

static void describe_values(void) {
  VALUE(NCCL_VERSION_CODE);
  VALUE(ncclInternalError);
  VALUE(ncclInvalidUsage);
  VALUE(ncclInProgress);
  VALUE(ncclTimeout);
  VALUE(ncclNumResults);
  VALUE(ncclInt64);
  VALUE(ncclFloat16);
  VALUE(ncclFloat);
  VALUE(ncclBfloat16);
  VALUE(ncclFloat8e5m2);
  VALUE(ncclNumTypes);
  VALUE(ncclAvg);
  VALUE(ncclNumOps);
  VALUE(ncclMaxRedOp);
  VALUE(ncclScalarDevice);
  VALUE(ncclScalarHostImmediate);
  VALUE(ncclStatGpuMemTotal);
  VALUE(NCCL_CONFIG_UNDEF_INT);
  VALUE(NCCL_SPLIT_NOCOLOR);
  VALUE(NCCL_WIN_STRICT_ORDERING);
  VALUE(NCCL_WIN_CFT_COUNTED);
  VALUE(ncclHostCftFallback);
  VALUE(ncclNvlsHostModeDisable);
  VALUE(NCCL_ENCRYPTION_MODE_PSK);
  VALUE(NCCL_SHRINK_ABORT);
}

int main(int argc, char** argv) {
  static char recorded[8192];
  FILE* file;
  size_t length;
  describe_structs();
  describe_values();
  if (argc < 2) {
    fputs(text, stdout);
    return 0;
  }
  file = fopen(argv[1], "r");
  if (!file) return 2;
  length = fread(recorded, 1, sizeof recorded - 1, file);
  recorded[length] = 0;
  fclose(file);
  if (strcmp(text, recorded) == 0) return 0;
  printf("the header differs from the record:\n%s", text);
  return 1;
}
