#include "topology/probe/probe.h"

#include <algorithm>

#include "base/error.h"
#include "topology/probe/hwloc.h"
#include "topology/probe/nvml.h"
#include "topology/probe/peers.h"
#include "topology/probe/rocm_smi.h"
#include "topology/probe/sysfs.h"
#include "topology/system/system_topology.h"

namespace sccl::topology::probe {
namespace {

// Asks /sys first. hwloc takes longer to start and is asked only for devices that /sys does not show.
class Places {
 public:
  Places(const Sources& sources, std::vector<std::string>& notes)
      : sources_(sources), sysfs_(sources.root), notes_(notes) {}

  Chain chain(const std::string& busid) {
    if (std::optional<Chain> known = sysfs_.chain(busid)) return *known;
    if (const HwlocView* view = hwloc())
      if (const auto known = view->chains.find(busid); known != view->chains.end()) return known->second;
    notes_.push_back(fmt::format("the place of {} in the PCI tree is not shown: taken to hang on CPU 0", busid));
    return {sysfs_.cpu(0), Element{"pci", {{"busid", busid}}, {}}};
  }

  std::vector<Nic> nics() {
    std::vector<Nic> found = sysfs_.nics();
    if (found.empty() && !sources_.hwloc_xml.empty())
      if (const HwlocView* view = hwloc()) found = view->nics;
    return found;
  }

  Element cpu() const { return sysfs_.cpu(0); }

 private:
  const HwlocView* hwloc() {
    if (!asked_) {
      asked_ = true;
      std::string why_not;
      view_ = hwloc_view(sources_.hwloc, sources_.hwloc_xml, why_not);
      if (!view_) notes_.push_back(why_not);
    }
    return view_ ? &*view_ : nullptr;
  }

  const Sources& sources_;
  Sysfs sysfs_;
  std::vector<std::string>& notes_;
  bool asked_ = false;
  std::optional<HwlocView> view_;
};

void add_devices(Element& system, const Devices& devices, Places& places, Found& found) {
  for (const Device& device : devices.devices) {
    Element& pci = place(system, places.chain(device.busid));
    pci.set_if_missing("class", devices.link_tag == "xgmi" ? kAmdGpuClass : kNvidiaGpuClass);
    Element& gpu = pci.child("gpu", "dev", std::to_string(device.index));
    if (!device.sm.empty()) gpu.set("sm", device.sm);
    if (!device.gcn.empty()) gpu.set("gcn", device.gcn);
    for (const DeviceLink& link : device.links)
      gpu.children.push_back(
          {devices.link_tag,
           {{"target", link.target}, {"count", std::to_string(link.count)}, {"tclass", link.target_class}},
           {}});
    ++found.devices;
  }
  found.notes.insert(found.notes.end(), devices.notes.begin(), devices.notes.end());
}

// The management library knows the links and their number. The driver knows peer access. Without the management library
// (containers without the capability "utility"), the driver at least tells that a link exists.
std::optional<Devices> joined(std::optional<Devices> managed, const std::string& manager,
                              const std::optional<Peers>& peers) {
  if (!peers) return managed;
  if (managed) {
    drop_refused(*managed, *peers);
    return managed;
  }
  if (peers->devices.devices.empty()) return std::nullopt;
  Devices devices = peers->devices;
  devices.notes.push_back(
      fmt::format("{} does not answer: links between devices are those that the driver reports, "
                  "each counted as one link",
                  manager));
  return devices;
}

void set_ranks(Element& element, std::span<const std::string> visible) {
  const auto at = std::find(visible.begin(), visible.end(), normal_busid(element.get("busid")));
  for (Element& child : element.children) {
    if (child.tag == "gpu" && at != visible.end()) child.set("rank", std::to_string(at - visible.begin()));
    set_ranks(child, visible);
  }
}

}  // namespace

Found look(const Sources& sources) {
  Found found;
  found.system = {"system", {{"version", "1"}}, {}};
  Places places(sources, found.notes);
  std::string no_nvml, no_rocm;
  std::string no_driver;  // not reported: if the management library is missing, too, its reason is enough
  const std::optional<Devices> nvidia =
      joined(nvml_devices(sources.nvml, no_nvml), sources.nvml, cuda_peers(sources.cuda, no_driver));
  const std::optional<Devices> amd =
      joined(rocm_devices(sources.rocm_smi, no_rocm), sources.rocm_smi, hip_peers(sources.hip, no_driver));
  if (nvidia) add_devices(found.system, *nvidia, places, found);
  if (amd) add_devices(found.system, *amd, places, found);
  if (!nvidia && !amd)
    for (const std::string& why : {no_nvml, no_rocm})
      if (!why.empty()) found.notes.push_back(why);
  for (Nic& nic : places.nics()) {
    Element& pci = place(found.system, places.chain(nic.busid));
    if (std::none_of(pci.children.begin(), pci.children.end(), [](const Element& one) { return one.tag == "nic"; }))
      pci.children.push_back({"nic", {}, {}});
    pci.children.back().children.push_back(std::move(nic.net));
  }
  if (found.system.children.empty()) found.system.children.push_back(places.cpu());
  return found;
}

Machine detect(const Found& found, const std::optional<Element>& file, std::span<const std::string> visible,
               int host_ranks) {
  Element system = file ? *file : found.system;
  if (file) merge(system, found.system);
  std::vector<std::string> jobs;
  for (const std::string& busid : visible) jobs.push_back(normal_busid(busid));
  if (jobs.empty() && found.devices > 0) jobs = gpu_busids(found.system);
  if (!jobs.empty()) {
    const std::vector<std::string> known = gpu_busids(system);
    for (const std::string& busid : jobs)
      if (std::find(known.begin(), known.end(), busid) == known.end() && found.devices + (file ? 1 : 0) > 0)
        fail(ErrorCode::invalid_usage,
             "device {} of this job was not found on the machine: is it hidden from the driver's "
             "library, or is the topology file another machine's?",
             busid);
    keep_gpus(system, jobs);
    set_ranks(system, jobs);
  }
  if (gpu_busids(system).empty()) return {host(host_ranks), std::move(system)};
  Topology topology = topology_from_system(system);
  return {std::move(topology), std::move(system)};
}

}  // namespace sccl::topology::probe
