/* AMD's driver on the machine of fake_rocm_smi.c; functions and their arguments are those of HIP. SCCL_FAKE_HIP says
   what it answers: "refuses" peer access between the first two devices, or "yes". */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static const char* answer(void) {
  const char* text = getenv("SCCL_FAKE_HIP");
  return text == NULL ? "" : text;
}

EXPORT int hipInit(unsigned flags) { return flags == 0 && answer()[0] != 0 ? 0 : 100; }

EXPORT int hipGetDeviceCount(int* count) {
  *count = 4;
  return 0;
}

EXPORT int hipDeviceGetPCIBusId(char* text, int bytes, int device) {
  snprintf(text, (size_t)bytes, "0000:%02x:00.0", 0xc1 + 5 * device);
  return 0;
}

EXPORT int hipDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = !(strcmp(answer(), "refuses") == 0 && device + peer == 1);
  return 0;
}

EXPORT int hipExtGetLinkTypeAndHopCount(int device, int peer, uint32_t* type, uint32_t* hops) {
  *type = 4;
  *hops = device + peer == 3 ? 2 : 1;
  return 0;
}
