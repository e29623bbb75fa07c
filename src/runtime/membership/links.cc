#include "runtime/membership/links.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/settings/env.h"
#include "base/settings/log.h"
#include "topology/formats/json.h"
#include "topology/formats/load.h"
#include "topology/formats/nccl_xml.h"
#include "topology/graph/joined.h"
#include "topology/probe/probe.h"
#include "topology/system/system_topology.h"

namespace sccl::runtime {
namespace {

using topology::Element;
using topology::Machine;
namespace probe = topology::probe;

// The daemon of NVIDIA's virtual machines writes their topology to this file. NCCL reads the file by default.
constexpr const char* kVirtualTopology = "/var/run/nvidia-topologyd/virtualTopology.xml";

struct Answer {
  Links links;
  std::vector<topology::NicPlace> nics;  // in the links
  std::string description;               // NCCL's XML; "" when not asked for or not available
  bool others_must_look = false;         // this process sees only some of the devices
};

// Takes a line on a source that cannot be used.
using Warn = std::function<void(const std::string&)>;

// Only the libraries of the vendor in use: the probe must not start a driver that the program does not use.
probe::Sources sources_for(std::optional<gpu::Vendor> vendor) {
  probe::Sources sources;
  if (vendor != gpu::Vendor::cuda) sources.cuda.clear();
  if (vendor != gpu::Vendor::hip) sources.hip.clear();
  if (vendor == gpu::Vendor::cuda) sources.rocm_smi.clear();
  if (vendor == gpu::Vendor::hip) sources.nvml.clear();
  return sources;
}

// Detects once per process and keeps the result, because the machine does not change.
const probe::Found& found_here(gpu::Vendor vendor) {
  static std::mutex mutex;
  static auto* const views = new std::map<gpu::Vendor, probe::Found>;  // never destroyed: threads may outlive main
  const std::lock_guard lock(mutex);
  const auto known = views->find(vendor);
  if (known != views->end()) return known->second;
  const probe::Found& found = views->emplace(vendor, probe::look(sources_for(vendor))).first->second;
  for (const std::string& note : found.notes) log::info(log::Subsystem::init, "detection: {}", note);
  return found;
}

std::string figures_of(const topology::Topology& links) {
  const auto measured = std::count_if(links.links.begin(), links.links.end(), [](const topology::Link& link) {
    return link.source == topology::Source::measured;
  });
  if (measured == 0) return "assumed";
  return static_cast<std::size_t>(measured) == links.links.size() ? "measured" : "partly measured";
}

void tell(const topology::Topology& links, const std::string& origin) {
  std::map<std::string_view, int> lanes;
  for (const topology::Link& link : links.links) lanes[topology::name(link.link_class)] += link.lanes;
  std::string kinds;
  for (const auto& [name, count] : lanes)
    kinds += fmt::format("{}{} directed lanes of {}", kinds.empty() ? "" : ", ", count, name);
  log::info(log::Subsystem::init, "links of '{}' ({} devices; {}) from {}; figures {}", links.name, links.ranks, kinds,
            origin, figures_of(links));
}

std::string described(const Machine& machine) {
  try {
    return topology::system_to_xml(machine.system ? *machine.system : topology::system_from_topology(machine.topology));
  } catch (const Error& error) {
    log::info(log::Subsystem::init, "no description for NCCL_TOPO_DUMP_FILE: {}", error.what());
    return "";
  }
}

// The part of a machine that the ranks rehearse; nothing if no devices of the machine serve them.
std::optional<Answer> rehearsed(const Machine& whole, const std::string& origin, const LinkQuestion& question,
                                const Warn& warn) {
  if (whole.topology.ranks < question.ranks) {
    warn(fmt::format("{} has {} devices, and there are {} ranks: continuing without it", origin, whole.topology.ranks,
                     question.ranks));
    return std::nullopt;
  }
  auto places = topology::places_on(whole.topology, question.places, [&](std::span<const int> devices) {
    return topology::part_of(whole, devices).topology;
  });
  if (places.devices.empty()) {
    warn(fmt::format("{}: {}; continuing without it", origin, places.remark));
    return std::nullopt;
  }
  if (!places.remark.empty()) log::info(log::Subsystem::init, "{}: {}", origin, places.remark);
  Machine machine = topology::part_of(whole, places.devices);
  tell(machine.topology, origin);
  Answer answer;
  answer.links.places = std::move(places.devices);
  if (question.describe) answer.description = described(machine);
  if (machine.system) answer.nics = topology::nic_places(*machine.system);
  answer.links.topology = std::move(machine.topology);
  return answer;
}

std::optional<Answer> named(const LinkQuestion& question, const Warn& warn) {
  if (question.named.empty()) return std::nullopt;
  const std::string origin = "SCCL_TOPO=" + question.named;
  try {
    return rehearsed(topology::load(question.named), origin, question, warn);
  } catch (const Error& error) {
    warn(fmt::format("{}: {}; continuing without it", origin, error.what()));
  }
  return std::nullopt;
}

struct File {
  std::string path;
  Element system;
};

// NCCL continues without a file that it cannot open. Likewise, this library continues without a file that it cannot
// read.
std::optional<File> file_of_nccl(const LinkQuestion& question, const Warn& warn) {
  if (question.hosts == HostCount::several) return std::nullopt;  // it describes one
  const std::optional<std::string> asked = topology::named_system_file();
  std::error_code error;
  if (!asked && (question.vendor != gpu::Vendor::cuda || !std::filesystem::exists(kVirtualTopology, error)))
    return std::nullopt;
  const std::string path = asked.value_or(kVirtualTopology);
  try {
    // A name without a slash is a file, too, never a preset.
    const Machine machine = topology::load(std::filesystem::path(path).is_absolute() ? path : "./" + path);
    if (!machine.system)
      fail(ErrorCode::invalid_argument, "{}: this is JSON, not NCCL's XML: give it to SCCL_TOPO", path);
    return File{path, *machine.system};
  } catch (const Error& error) {
    warn(fmt::format("NCCL_TOPO_FILE: {}; continuing without it", error.what()));
    return std::nullopt;
  }
}

bool are_distinct(const std::vector<std::string>& busids) {
  return std::set<std::string>(busids.begin(), busids.end()).size() == busids.size() &&
         std::find(busids.begin(), busids.end(), "") == busids.end();
}

bool holds_all(const Element& system, const std::vector<std::string>& busids) {
  const std::vector<std::string> known = topology::gpu_busids(system);
  return std::all_of(busids.begin(), busids.end(), [&](const std::string& busid) {
    return std::find(known.begin(), known.end(), topology::normal_busid(busid)) != known.end();
  });
}

Answer detected(const LinkQuestion& question, std::optional<File> file, const std::vector<std::string>& views,
                const Warn& warn) {
  probe::Found found = found_here(*question.vendor);
  for (const std::string& view : views)
    if (!view.empty()) topology::merge(found.system, topology::system_from_xml(view));
  found.devices = static_cast<int>(topology::gpu_busids(found.system).size());
  if (views.empty() && question.ranks > 1 && !holds_all(found.system, question.busids)) {
    Answer others;
    others.others_must_look = true;
    return others;
  }
  for (;; file.reset()) {
    const std::string origin =
        file ? fmt::format("NCCL_TOPO_FILE={}, completed by detection", file->path) : "detection";
    try {
      Machine machine =
          probe::detect(found, file ? std::optional(file->system) : std::nullopt, question.busids, question.ranks);
      if (machine.topology.ranks != question.ranks)
        fail(ErrorCode::system_error, "{} of {} devices were found: see sccl topo", machine.topology.ranks,
             question.ranks);
      Answer answer;
      if (question.describe) answer.description = described(machine);
      if (question.ranks > 1) {
        tell(machine.topology, origin);
        if (machine.system) answer.nics = topology::nic_places(*machine.system);
        answer.links.topology = std::move(machine.topology);
      }
      return answer;
    } catch (const Error& error) {
      if (file) {
        warn(fmt::format("{}: {}; continuing without it", origin, error.what()));
        continue;
      }
      log::info(log::Subsystem::init, "the devices' links are not known ({}): all pairs are taken alike", error.what());
      return Answer();
    }
  }
}

Answer on_devices(LinkQuestion question, std::optional<File> file, const std::vector<std::string>& views,
                  const Warn& warn) {
  if (are_distinct(question.busids)) return detected(question, std::move(file), views, warn);
  log::info(log::Subsystem::init,
            "ranks share devices, or the driver tells no PCI addresses: links are not looked at, all "
            "pairs are taken alike");
  Answer answer;
  if (!question.describe) return answer;
  std::sort(question.busids.begin(), question.busids.end());
  question.busids.erase(std::unique(question.busids.begin(), question.busids.end()), question.busids.end());
  question.ranks = static_cast<int>(question.busids.size());
  if (are_distinct(question.busids)) answer.description = detected(question, std::move(file), views, warn).description;
  return answer;
}

// For the host platform: no device of this job is on a bus, so the file describes another machine.
std::optional<Answer> of_other_machine(const File& file, const LinkQuestion& question, const Warn& warn) {
  const std::string origin = "NCCL_TOPO_FILE=" + file.path;
  try {
    return rehearsed({topology::topology_from_system(file.system), file.system}, origin, question, warn);
  } catch (const Error& error) {
    warn(fmt::format("{}: {}; continuing without it", origin, error.what()));
  }
  return std::nullopt;
}

Answer find_links(const LinkQuestion& question, const std::vector<std::string>& views, const Warn& warn) {
  std::optional<Answer> answer = named(question, warn);
  if (answer) return std::move(answer).value();
  std::optional<File> file = file_of_nccl(question, warn);
  if (question.vendor) return on_devices(question, std::move(file), views, warn);
  if (file) answer = of_other_machine(*file, question, warn);
  if (answer) return std::move(answer).value();
  Answer none;
  if (question.describe) none.description = topology::system_to_xml(probe::look(sources_for(std::nullopt)).system);
  return none;
}

std::optional<std::string> description_path() { return env::text("NCCL_TOPO_DUMP_FILE"); }

// Replaces the file atomically, because tools may read the file at any time.
void write_description(const std::string& text) {
  const std::string path = description_path().value_or("");
  if (text.empty()) {
    log::warn("NCCL_TOPO_DUMP_FILE={}: there is no description that NCCL's format can hold: see sccl topo --json",
              path);
    return;
  }
  const std::string part = fmt::format("{}.{}.{}", path, ::getpid(), ::gettid());
  std::error_code error;
  {
    std::ofstream file(part, std::ios::binary);
    file << text;
    file.flush();
    if (!file) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) std::filesystem::rename(part, path, error);
  if (!error) {
    log::info(log::Subsystem::init, "topology written to {}", path);
    return;
  }
  std::error_code ignored;
  std::filesystem::remove(part, ignored);
  log::warn("NCCL_TOPO_DUMP_FILE={} cannot be written: choose another place", path);
}

std::string to_text(const Answer& answer) {
  nlohmann::json json{{"places", answer.links.places}, {"look", answer.others_must_look}, {"xml", answer.description}};
  if (answer.links.topology) json["topology"] = topology::to_json(*answer.links.topology);
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Answer answer_from(const Bytes& bytes) {
  const auto json = nlohmann::json::parse(reinterpret_cast<const char*>(bytes.data()),
                                          reinterpret_cast<const char*>(bytes.data() + bytes.size()), nullptr, false);
  if (!json.is_object() || !json.contains("xml"))
    fail(ErrorCode::invalid_usage, "rank 0 sent no topology during init: use one library version on all ranks");
  Answer answer;
  answer.links.places = json.at("places").get<std::vector<int>>();
  answer.others_must_look = json.at("look").get<bool>();
  answer.description = json.at("xml").get<std::string>();
  if (json.contains("topology")) answer.links.topology = topology::from_json(json.at("topology"));
  return answer;
}

}  // namespace

NamedLinks named_links() {
  if (topology::named_topology()) return NamedLinks::of_all_hosts;
  return topology::named_system_file() ? NamedLinks::of_one_host : NamedLinks::none;
}

HostBox links_of_this_host(const LinkQuestion& question) {
  HostBox box;
  Answer answer = find_links(question, {}, [&](const std::string& line) { box.warnings.push_back(line); });
  if (answer.others_must_look)
    log::info(
        log::Subsystem::init,
        "the first rank of this host does not see all devices of its ranks: links are not looked at, all pairs of "
        "this host are taken alike");
  box.links = std::move(answer.links.topology);
  if (box.links) box.nics = std::move(answer.nics);
  return box;
}

bool writes_description(Rank rank) {
  return description_path().has_value() &&
         env::number("NCCL_TOPO_DUMP_FILE_RANK", 0, 0, std::numeric_limits<int>::max()) == rank;
}

Links agree_on_links(Rank rank, const LinkQuestion& question, Bootstrap& bootstrap, Deadline deadline) {
  const auto gather = [&](const std::string& text) {
    return bootstrap.all_gather(std::as_bytes(std::span(text)), deadline);
  };
  const auto from_rank_0 = [&](const std::vector<std::string>& views) {
    const Warn warn = [](const std::string& line) { log::warn("{}", line); };
    return answer_from(gather(rank == 0 ? to_text(find_links(question, views, warn)) : "").front());
  };
  Answer answer = from_rank_0({});
  if (answer.others_must_look) {
    // Ranks in containers may each see one device; together they see all devices. NCCL joins the views, too.
    std::vector<std::string> views;
    for (const Bytes& view : gather(topology::system_to_xml(found_here(*question.vendor).system)))
      views.emplace_back(reinterpret_cast<const char*>(view.data()), view.size());
    answer = from_rank_0(views);
  }
  if (writes_description(rank)) write_description(answer.description);
  return std::move(answer.links);
}

}  // namespace sccl::runtime
