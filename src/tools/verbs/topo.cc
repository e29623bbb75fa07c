// sccl topo: the links between devices, as a table, JSON, picture or NCCL XML.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/os/in_parallel.h"
#include "platform/host/measure_copies.h"
#include "portfolio/allocations.h"
#include "tools/input/parse.h"
#include "tools/input/topology_argument.h"
#include "tools/pictures/topo_report.h"
#include "tools/pictures/topo_svg.h"
#include "tools/verbs/verbs.h"
#include "topology/formats/json.h"
#include "topology/formats/load.h"
#include "topology/formats/nccl_xml.h"
#include "topology/measurement.h"
#include "topology/probe/probe.h"
#include "topology/symmetry/canonical.h"
#include "topology/system/system_topology.h"

namespace sccl::tools {
namespace {

struct Options {
  std::string topology, svg, dump;
  std::vector<int> devices, free;
  std::string collective = "allreduce";
  std::optional<int> best;  // devices to choose
  double nic_gbits_per_s = 100;
  const CLI::Option* nic_gbps = nullptr;
  bool as_json = false, classes = false, measure = false;
  int smallest = 3, largest = 8;
};

// Names come from files, whose bytes may be no UTF-8.
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
  if (const std::optional<std::string> path = topology::named_system_file()) file = topology::load(*path).system;
  const int cores = static_cast<int>(cores_of_thread());
  return topology::probe::detect(found, file, {}, cores);
}

std::filesystem::path cache_folder() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the command has one thread here.
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != 0)
    return std::filesystem::path(cache) / "sccl";
  const char* home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe)
  return std::filesystem::path(home != nullptr ? home : "/tmp") / ".cache" / "sccl";
}

// Equivalent links between equal processors share one measurement.
std::string measurement_key(const topology::Machine& machine) {
  std::string key = topology::canonical_form(machine.topology).key;
  if (machine.system)
    for (const topology::Element& cpu : machine.system->children)
      if (cpu.tag == "cpu") key += fmt::format("-{}.{}.{}", cpu.get("vendor"), cpu.get("familyid"), cpu.get("modelid"));
  std::replace_if(
      key.begin(), key.end(), [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '.'; }, '_');
  return key;
}

// The host's own links get the figures of an earlier measurement, or of a measurement made now.
void use_measured(topology::Machine& machine, bool measure_now) {
  const bool is_host = std::all_of(machine.topology.links.begin(), machine.topology.links.end(),
                                   [](const auto& link) { return link.link_class == topology::LinkClass::shm; });
  if (!is_host) {
    if (measure_now)
      fail(ErrorCode::invalid_usage, "only the host's own links can be measured by this version: leave out --measure");
    return;
  }
  const std::string key = measurement_key(machine);
  std::optional<topology::Measurement> measurement = topology::load_measurement(cache_folder(), key);
  if (measure_now) {
    constexpr std::chrono::milliseconds kBudget{500};
    const host::CopyMeasurement measured = host::measure_copies(machine.topology.ranks, kBudget);
    std::vector<topology::Sample> samples;
    for (const host::CopyTime& one : measured.alone) samples.push_back({one.bytes, one.us});
    measurement =
        topology::Measurement{{{topology::LinkClass::shm, topology::fit(samples), measured.all_gbytes_per_s}}};
    if (!topology::store_measurement(cache_folder(), key, *measurement))
      std::fprintf(stderr, "sccl topo: %s cannot be written: the measurement is not kept\n", cache_folder().c_str());
  }
  if (!measurement) return;
  for (const topology::MeasuredClass& one : measurement->classes)
    std::fprintf(stderr, "sccl topo: measured: %.2f GB/s alone, %.2f GB/s by all %d cores together\n",
                 one.alone.gbytes_per_s, one.all_gbytes_per_s, machine.topology.ranks);
  topology::apply(*measurement, machine.topology);
}

topology::Machine chosen(const Options& options) {
  if (options.measure && !options.topology.empty())
    fail(ErrorCode::invalid_usage, "--measure is about this machine: leave out --topo");
  check_nic_option(*options.nic_gbps, options.topology);
  topology::Machine machine =
      options.topology.empty() ? this_machine() : topology::load(options.topology, options.nic_gbits_per_s);
  if (options.topology.empty()) use_measured(machine, options.measure);
  return options.devices.empty() ? machine : topology::part_of(machine, options.devices);
}

void answer(const Options& options) {
  const topology::Machine machine = chosen(options);
  if (!options.svg.empty()) write_file(options.svg, topo_svg(machine.topology));
  if (!options.dump.empty()) write_file(options.dump, dumped(machine, options.dump));
  if (options.best) {
    const auto collective = collective_from_name(options.collective);
    if (!collective) fail(ErrorCode::invalid_argument, "unknown collective '{}'", options.collective);
    std::vector<int> free = options.free;
    if (free.empty()) {
      free.resize(static_cast<std::size_t>(machine.topology.ranks));
      std::iota(free.begin(), free.end(), 0);
    }
    const auto ranked = portfolio::rank_allocations(machine, free, *options.best, *collective);
    std::fputs(
        (options.as_json ? text_of(allocations_json(machine.topology, ranked)) : allocations_table(ranked)).c_str(),
        stdout);
  } else if (options.classes) {
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
  options.nic_gbps = app.add_option("--nic-gbps", options.nic_gbits_per_s, "Gbit/s of each device's NIC in A*PRESET")
                         ->capture_default_str();
  app.add_option("--svg", options.svg, "draw a picture into this file");
  app.add_option("--dump", options.dump, "write NCCL's XML into this file (JSON if it ends in .json)");
  app.add_flag("--classes", options.classes, "list what parts of the machine jobs may be left with, up to isomorphism");
  app.add_option("--smallest", options.smallest, "fewest devices of a part")->capture_default_str();
  app.add_option("--largest", options.largest, "most devices of a part")->capture_default_str();
  app.add_option("--best", options.best, "rank the ways to choose so many devices by the rate their links reach");
  app.add_option("--free", options.free, "devices that --best may choose; none: all")->delimiter(',');
  app.add_option("--collective", options.collective, "whose rate --best compares")->capture_default_str();
  app.add_flag("--measure", options.measure, "measure this machine's links (half a second) and keep the figures");
  app.add_flag("--json", options.as_json, "print JSON; without --classes and --best it is a topology file");
  try {
    parse(app, argc, argv);
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
