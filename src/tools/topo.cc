// sccl topo: the links between devices, as a table, JSON, picture or NCCL XML.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/env.h"
#include "base/error.h"
#include "tools/topo_report.h"
#include "tools/topo_svg.h"
#include "tools/verbs.h"
#include "topology/json.h"
#include "topology/nccl_xml.h"
#include "topology/probe/probe.h"
#include "topology/system_topology.h"

namespace sccl::tools {
namespace {

struct Options {
  std::string topology, svg, dump;
  std::vector<int> devices;
  double nic_gbits_per_s = 100;
  bool as_json = false, classes = false;
  int smallest = 3, largest = 8;
};

// Names come from files, whose bytes need not be UTF-8.
std::string text_of(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.flush();
  if (!file) fail(ErrorCode::invalid_argument, "{} cannot be written: choose another place", path);
}

std::string dumped(const topology::Machine& machine, const std::string& path) {
  if (path.ends_with(".json")) return text_of(topology::to_json(machine.topology));
  return topology::system_to_xml(machine.system ? *machine.system : topology::system_from_topology(machine.topology));
}

topology::Machine this_machine() {
  const topology::probe::Found found = topology::probe::look();
  for (const std::string& note : found.notes) std::fprintf(stderr, "sccl topo: %s\n", note.c_str());
  std::optional<topology::Element> file;
  if (const std::optional<std::string> path = env::text("NCCL_TOPO_FILE")) file = topology::load(*path).system;
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return topology::probe::detect(found, file, {}, cores);
}

topology::Machine chosen(const Options& options) {
  topology::Machine machine =
      options.topology.empty() ? this_machine() : topology::load(options.topology, options.nic_gbits_per_s);
  return options.devices.empty() ? machine : topology::part_of(machine, options.devices);
}

void answer(const Options& options) {
  const topology::Machine machine = chosen(options);
  if (!options.svg.empty()) write_file(options.svg, topo_svg(machine.topology));
  if (!options.dump.empty()) write_file(options.dump, dumped(machine, options.dump));
  if (options.classes) {
    const auto classes = topology::subset_classes(machine.topology, options.smallest, options.largest);
    const std::string text =
        options.as_json ? text_of(classes_json(machine.topology, classes)) : classes_table(classes);
    std::fputs(text.c_str(), stdout);
  } else {
    std::fputs((options.as_json ? text_of(topo_json(machine)) : topo_table(machine)).c_str(), stdout);
  }
}

}  // namespace

int topo(int argc, char** argv) {
  Options options;
  CLI::App app("Links between devices: what there is, how far apart they are, what that bounds.", "sccl topo");
  app.add_option("--topo", options.topology,
                 "preset, A*PRESET, host:N, or a JSON or NCCL XML file; none: this machine");
  app.add_option("--devices", options.devices, "only these, renumbered in this order")->delimiter(',');
  app.add_option("--nic-gbps", options.nic_gbits_per_s, "Gbit/s of each device's NIC in A*PRESET")
      ->capture_default_str();
  app.add_option("--svg", options.svg, "draw a picture into this file");
  app.add_option("--dump", options.dump, "write NCCL's XML into this file (JSON if it ends in .json)");
  app.add_flag("--classes", options.classes, "list what parts of the machine jobs may be left with, up to isomorphism");
  app.add_option("--smallest", options.smallest, "fewest devices of a part")->capture_default_str();
  app.add_option("--largest", options.largest, "most devices of a part")->capture_default_str();
  app.add_flag("--json", options.as_json, "print JSON; without --classes it is a topology file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  }
  try {
    answer(options);
    return kOk;
  } catch (const Error& error) {
    std::fprintf(stderr, "sccl topo: %s\n", error.what());
    return kBadUsage;
  }
}

}  // namespace sccl::tools
