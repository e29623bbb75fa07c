/* A driver's management library with the answers of recorded machines. SCCL_FAKE_NVML names the machine; functions and
   their arguments are those of NVML. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
enum { kSuccess = 0, kUninitialized = 1, kInvalidArgument = 2, kNotSupported = 3, kDriverNotLoaded = 9 };

struct pci_info {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};

struct device {
  const char* busid;
  int major, minor;
  int links;
  const char* target[36]; /* null: down */
  int type[36];
};

static struct device devices[16];
static unsigned device_count;
static int initialised, refuse_peers;

static struct device* add(const char* busid, int major) {
  struct device* one = &devices[device_count++];
  memset(one, 0, sizeof *one);
  one->busid = busid;
  one->major = major;
  return one;
}

static void link_to(struct device* one, const char* target, int type) {
  one->target[one->links] = target;
  one->type[one->links++] = type;
}

/* DGX-1V: addresses as the machine has them, links as in its manual; `shown` of the GPUs answer. */
static void dgx1v(const int* shown, int count) {
  static const char* const busids[8] = {"00000000:06:00.0", "00000000:07:00.0", "00000000:0A:00.0", "00000000:0B:00.0",
                                        "00000000:85:00.0", "00000000:86:00.0", "00000000:89:00.0", "00000000:8A:00.0"};
  static const int pairs[16][3] = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1},
                                   {1, 5, 2}, {2, 3, 2}, {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1},
                                   {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};
  for (int i = 0; i < count; ++i) {
    struct device* one = add(busids[shown[i]], 7);
    for (int pair = 0; pair < 16; ++pair)
      for (int end = 0; end < 2; ++end)
        for (int lane = 0; pairs[pair][end] == shown[i] && lane < pairs[pair][2]; ++lane)
          link_to(one, busids[pairs[pair][1 - end]], 0);
  }
}

EXPORT int nvmlInit_v2(void) {
  static const int all[8] = {0, 1, 2, 3, 4, 5, 6, 7}, three[3] = {1, 4, 5};
  const char* machine = getenv("SCCL_FAKE_NVML");
  device_count = 0;
  refuse_peers = 0;
  if (machine == NULL || strcmp(machine, "no-driver") == 0) return kDriverNotLoaded;
  if (strcmp(machine, "dgx1v") == 0) {
    dgx1v(all, 8);
  } else if (strncmp(machine, "dgx1v:", 6) == 0) { /* a container with this device only */
    dgx1v(&all[(machine[6] - '0') % 8], 1);
  } else if (strcmp(machine, "three-of-eight") == 0) {
    dgx1v(three, 3);
  } else if (strcmp(machine, "refused-peers") == 0) {
    dgx1v(all, 2);
    refuse_peers = 1;
  } else if (strcmp(machine, "pair") == 0) {
    add("00000000:06:00.0", 7);
    add("00000000:86:00.0", 7);
  } else if (strcmp(machine, "pcie") == 0) {
    static const char* const busids[4] = {"00000000:18:00.0", "00000000:3B:00.0", "00000000:86:00.0",
                                          "00000000:AF:00.0"};
    for (int i = 0; i < 4; ++i) {
      struct device* one = add(busids[i], 8);
      one->minor = 9;
      one->links = i == 0 ? 2 : 0; /* links that are down */
    }
  } else if (strcmp(machine, "vm") == 0) {
    static const char* const busids[4] = {"00000000:00:05.0", "00000000:00:06.0", "00000000:00:07.0",
                                          "00000000:00:08.0"};
    for (int i = 0; i < 4; ++i) {
      struct device* one = add(busids[i], 9);
      for (int link = 0; link < 18; ++link) link_to(one, i < 2 ? "FFFFFFFF:FFFF:FF.F" : "error", 2);
    }
  }
  initialised = 1;
  return kSuccess;
}

EXPORT int nvmlShutdown(void) {
  initialised = 0;
  return kSuccess;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = device_count;
  return initialised ? kSuccess : kUninitialized;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  if (index >= device_count) return kInvalidArgument;
  *handle = &devices[index];
  return kSuccess;
}

static int fill(struct pci_info* info, const char* busid) {
  memset(info, 0, sizeof *info);
  snprintf(info->bus_id, sizeof info->bus_id, "%s", busid);
  return kSuccess;
}

EXPORT int nvmlDeviceGetPciInfo_v3(void* handle, struct pci_info* info) {
  return fill(info, ((struct device*)handle)->busid);
}

EXPORT int nvmlDeviceGetCudaComputeCapability(void* handle, int* major, int* minor) {
  *major = ((struct device*)handle)->major;
  *minor = ((struct device*)handle)->minor;
  return kSuccess;
}

EXPORT int nvmlDeviceGetNvLinkState(void* handle, unsigned link, int* active) {
  const struct device* one = handle;
  if (one->links == 0) return kNotSupported;
  if (link >= (unsigned)one->links) return kInvalidArgument;
  *active = one->target[link] != NULL;
  return kSuccess;
}

EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* handle, unsigned link, struct pci_info* info) {
  const struct device* one = handle;
  if (strcmp(one->target[link], "error") == 0) return kNotSupported;
  return fill(info, one->target[link]);
}

EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(void* handle, unsigned link, int* type) {
  *type = ((struct device*)handle)->type[link];
  return kSuccess;
}

EXPORT int nvmlDeviceGetP2PStatus(void* a, void* b, int capability, int* status) {
  (void)a, (void)b, (void)capability;
  *status = refuse_peers ? 5 : 0;
  return kSuccess;
}
