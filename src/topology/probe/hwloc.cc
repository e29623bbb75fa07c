// Uses only the types of hwloc.h. Functions are looked up at run time, so nothing links with the library.
#include "topology/probe/hwloc.h"

#include "base/error.h"
#include "base/os/shared_library.h"

#if __has_include(<hwloc.h>)
#include <hwloc.h>
#define SCCL_HAS_HWLOC_HEADER 1
#else
#define SCCL_HAS_HWLOC_HEADER 0
#endif

namespace sccl::topology::probe {

#if SCCL_HAS_HWLOC_HEADER
namespace {

struct Api {
  decltype(hwloc_get_api_version)* version;
  decltype(hwloc_topology_init)* init;
  decltype(hwloc_topology_destroy)* destroy;
  decltype(hwloc_topology_load)* load;
  decltype(hwloc_topology_set_xml)* set_xml;
  decltype(hwloc_topology_set_io_types_filter)* set_io_filter;
  decltype(hwloc_get_obj_by_depth)* by_depth;
  decltype(hwloc_bitmap_first)* first;

  bool find_in(const SharedLibrary& library) {
    return library.find("hwloc_get_api_version", version) && library.find("hwloc_topology_init", init) &&
           library.find("hwloc_topology_destroy", destroy) && library.find("hwloc_topology_load", load) &&
           library.find("hwloc_topology_set_xml", set_xml) &&
           library.find("hwloc_topology_set_io_types_filter", set_io_filter) &&
           library.find("hwloc_get_obj_by_depth", by_depth) && library.find("hwloc_bitmap_first", first);
  }
};

using PciAttributes = decltype(hwloc_obj_attr_u::pcidev);

std::string busid_of(const PciAttributes& pci) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", static_cast<unsigned>(pci.domain), pci.bus, pci.dev, pci.func);
}

Element pci_element(const PciAttributes& pci) {
  Element element{"pci", {{"busid", busid_of(pci)}, {"class", fmt::format("0x{:04x}00", pci.class_id)}}, {}};
  element.set("vendor", fmt::format("0x{:04x}", pci.vendor_id));
  element.set("device", fmt::format("0x{:04x}", pci.device_id));
  return element;
}

std::string info_of(const hwloc_obj* object, std::string_view name) {
  for (unsigned i = 0; i < object->infos_count; ++i)
    if (name == object->infos[i].name) return object->infos[i].value;
  return "";
}

// The package of a device, which tells the CPU's model; null when the machine shows none.
const hwloc_obj* package_near(const Api& api, hwloc_topology_t topology, const hwloc_obj* object) {
  for (; object != nullptr; object = object->parent)
    if (object->type == HWLOC_OBJ_PACKAGE) return object;
  const hwloc_obj* found = api.by_depth(topology, 0, 0);
  while (found != nullptr && found->type != HWLOC_OBJ_PACKAGE) found = found->first_child;
  return found;
}

Element cpu_element(const Api& api, hwloc_topology_t topology, const hwloc_obj* object) {
  while (object->nodeset == nullptr) object = object->parent;
  const int node = api.first(object->nodeset);
  Element cpu{"cpu", {{"numaid", std::to_string(node < 0 ? 0 : node)}}, {}};
  const hwloc_obj* package = package_near(api, topology, object);
  for (const auto& [info, attribute] : {std::pair("CPUVendor", "vendor"), std::pair("CPUFamilyNumber", "familyid"),
                                        std::pair("CPUModelNumber", "modelid")})
    if (package != nullptr)
      if (const std::string value = info_of(package, info); !value.empty()) cpu.set(attribute, value);
  if (const hwloc_obj* root = api.by_depth(topology, 0, 0))
    if (const std::string arch = info_of(root, "Architecture"); !arch.empty()) cpu.set("arch", arch);
  return cpu;
}

Chain chain_of(const Api& api, hwloc_topology_t topology, const hwloc_obj* device) {
  std::map<std::string, Element> elements{{busid_of(device->attr->pcidev), pci_element(device->attr->pcidev)}};
  std::vector<std::string> way{busid_of(device->attr->pcidev)};
  const hwloc_obj* above = device->parent;
  for (; above != nullptr && above->type == HWLOC_OBJ_BRIDGE; above = above->parent) {
    if (above->attr->bridge.upstream_type != HWLOC_OBJ_BRIDGE_PCI) continue;
    const PciAttributes& pci = above->attr->bridge.upstream.pci;
    way.insert(way.begin(), busid_of(pci));
    Element element = pci_element(pci);
    element.set("class", "0x060400");
    elements.emplace(way.front(), std::move(element));
  }
  Chain chain{cpu_element(api, topology, above)};
  for (const std::string& busid : without_lower_ports(way)) chain.push_back(elements.at(busid));
  return chain;
}

void add_nics(const hwloc_obj* device, std::vector<Nic>& nics) {
  for (const hwloc_obj* os = device->io_first_child; os != nullptr; os = os->next_sibling) {
    if (os->type != HWLOC_OBJ_OS_DEVICE || os->name == nullptr) continue;
    const bool rdma = os->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
    if (!rdma && os->attr->osdev.type != HWLOC_OBJ_OSDEV_NETWORK) continue;
    const std::string busid = busid_of(device->attr->pcidev);
    // A card with both a network interface and an RDMA device counts as the RDMA device.
    if (!nics.empty() && nics.back().busid == busid) {
      if (!rdma) continue;
      nics.pop_back();
    }
    nics.push_back({busid, {"net", {{"name", os->name}, {"dev", std::to_string(nics.size())}}, {}}});
  }
}

}  // namespace

std::optional<HwlocView> hwloc_view(const std::string& library_name, const std::string& xml, std::string& why_not) {
  const std::optional<SharedLibrary> library = SharedLibrary::open(library_name);
  Api api{};
  if (!library || !api.find_in(*library) || api.version() >> 16 != HWLOC_API_VERSION >> 16) {
    why_not = fmt::format("{} is not installed, or not of version {}", library_name, HWLOC_API_VERSION >> 16);
    return std::nullopt;
  }
  hwloc_topology_t topology = nullptr;
  if (api.init(&topology) != 0) {
    why_not = "hwloc cannot begin";
    return std::nullopt;
  }
  const bool loaded = (xml.empty() || api.set_xml(topology, xml.c_str()) == 0) &&
                      api.set_io_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL) == 0 && api.load(topology) == 0;
  std::optional<HwlocView> view;
  if (loaded) {
    view.emplace();
    for (unsigned index = 0;; ++index) {
      const hwloc_obj* device = api.by_depth(topology, HWLOC_TYPE_DEPTH_PCI_DEVICE, index);
      if (device == nullptr) break;
      const unsigned base_class = device->attr->pcidev.class_id >> 8;
      if (base_class != 0x02 && base_class != 0x03 && base_class != 0x12) continue;
      view->chains.emplace(busid_of(device->attr->pcidev), chain_of(api, topology, device));
      add_nics(device, view->nics);
    }
  } else {
    why_not = fmt::format("hwloc cannot load {}", xml.empty() ? "this machine" : xml);
  }
  api.destroy(topology);
  return view;
}

#else

std::optional<HwlocView> hwloc_view(const std::string&, const std::string&, std::string& why_not) {
  why_not = "built without hwloc's header";
  return std::nullopt;
}

#endif

}  // namespace sccl::topology::probe
