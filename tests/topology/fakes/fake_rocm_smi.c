/* AMD's system management library with the answers of a machine of four GCDs on two MI250X; functions and their
   arguments are those of ROCm SMI. */
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

/* Links between GCDs: four within a module; 0-2 and 1-3 single ones; 0-3 and 1-2 over another. */
static const int links[4][4] = {{0, 4, 1, 0}, {4, 0, 0, 1}, {1, 0, 0, 4}, {0, 1, 4, 0}};

EXPORT int rsmi_init(uint64_t flags) { return flags == 0 && getenv("SCCL_FAKE_ROCM") != NULL ? 0 : 8; }
EXPORT int rsmi_shut_down(void) { return 0; }

EXPORT int rsmi_num_monitor_devices(uint32_t* count) {
  *count = 4;
  return 0;
}

EXPORT int rsmi_dev_pci_id_get(uint32_t device, uint64_t* id) {
  *id = (uint64_t)(0xc1 + 5 * device) << 8;
  return 0;
}

EXPORT int rsmi_topo_get_link_type(uint32_t src, uint32_t dst, uint64_t* hops, int* type) {
  *hops = links[src][dst] > 0 ? 1 : 2;
  *type = 2;
  return 0;
}

EXPORT int rsmi_minmax_bandwidth_get(uint32_t src, uint32_t dst, uint64_t* least, uint64_t* most) {
  *least = 50000;
  *most = 50000u * (uint64_t)links[src][dst];
  return 0;
}

EXPORT int rsmi_dev_target_graphics_version_get(uint32_t device, uint64_t* version) {
  (void)device;
  *version = 9010;
  return 0;
}
