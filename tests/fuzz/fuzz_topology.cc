// Whatever the bytes: the readers of topologies refuse them with an error of the library or give something that is
// valid, survives being written and read again, and can be worked with.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "topology/formats/json.h"
#include "topology/formats/load.h"
#include "topology/formats/nccl_xml.h"
#include "topology/graph/metrics.h"
#include "topology/probe/probe.h"
#include "topology/symmetry/canonical.h"
#include "topology/system/paths.h"
#include "topology/system/system_topology.h"

namespace {

using namespace sccl::topology;

constexpr const char* kOtherMachine =
    R"(<system version="1"><cpu numaid="0"><pci busid="0000:10:00.0"><gpu dev="0" sm="70"/></pci></cpu></system>)";
constexpr int kSmall = 12;  // nodes up to which the costly questions are asked

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

void work_with(const Topology& topology) {
  validate(topology);
  const Topology again = from_json(
      nlohmann::json::parse(to_json(topology).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  require(again.links.size() == topology.links.size(), "links are lost in JSON");
  if (topology.nodes() > kSmall || topology.links.size() > 200 || topology.shared.size() > 20) return;
  require(canonical_form(again).text == canonical_form(topology).text, "another topology comes back from JSON");
  path_matrix(topology);
  diameter(topology);
  inverse_bisection_bound(topology, sccl::Collective::allgather);
}

void read_xml(std::string_view text) {
  Element system = system_from_xml(text);
  const std::string written = system_to_xml(system);
  Element twice = system;
  merge(twice, system);
  keep_gpus(twice, gpu_busids(system));
  nic_paths(system);
  // What a communicator does with a file at init, on a machine with other devices and as a machine to rehearse.
  probe::Found elsewhere;
  elsewhere.system = system_from_xml(kOtherMachine);
  elsewhere.devices = 1;
  probe::detect({}, system, {}, 2);
  const std::vector<int> last{static_cast<int>(gpu_busids(system).size()) - 1};
  if (last.front() >= 0) part_of({topology_from_system(system), system}, last);
  try {
    probe::detect(elsewhere, system, {}, 2);
  } catch (const sccl::Error&) {
    // Not this machine's file.
  }
  work_with(topology_from_system(system));
  work_with(topology_from_system(system, Detours::always));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    if (text.find('<') < text.find('{')) {
      read_xml(text);
    } else {
      const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
      if (!json.is_discarded()) work_with(from_json(json));
    }
  } catch (const sccl::Error&) {
    // The answer to most bytes. Any other exception ends the process, as it should.
  }
  return 0;
}
