#include "topology/probe/sysfs.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <set>

#include "base/error.h"
#include "base/os/folder.h"

namespace sccl::topology::probe {
namespace {

namespace fs = std::filesystem;

// "0000:0a:00.0"; virtual bridges have domains of more digits.
bool is_busid(std::string_view name) {
  const std::size_t colon = name.find(':');
  if (colon == std::string_view::npos || colon < 4 || name.size() != colon + 8) return false;
  constexpr std::string_view kShape = ":xx:xx.x";
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char wanted = i < colon ? 'x' : kShape[i - colon];
    if (wanted == 'x' ? std::isxdigit(static_cast<unsigned char>(name[i])) == 0 : name[i] != wanted) return false;
  }
  return true;
}

std::string architecture() {
#if defined(__x86_64__)
  return "x86_64";
#elif defined(__aarch64__)
  return "arm64";
#elif defined(__powerpc64__)
  return "ppc64";
#else
  return "unknown";
#endif
}

double leading_number(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

}  // namespace

std::string Sysfs::read(const fs::path& path) const {
  std::ifstream file(root_ / path);
  std::string line;
  std::getline(file, line);
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) line.pop_back();
  return line;
}

std::string Sysfs::busid_behind(const fs::path& link) const {
  std::error_code error;
  const fs::path real = fs::canonical(root_ / link, error);
  const std::string name = real.filename().string();
  return !error && is_busid(name) ? name : "";
}

Element Sysfs::cpu(int numa_node) const {
  Element cpu{"cpu", {{"numaid", std::to_string(numa_node)}}, {}};
  cpu.set("affinity", read(fmt::format("sys/devices/system/node/node{}/cpumap", numa_node)));
  cpu.set("arch", architecture());
  std::ifstream file(root_ / "proc/cpuinfo");
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kFields{
      {{"vendor_id", "vendor"}, {"cpu family", "familyid"}, {"model", "modelid"}}};
  for (std::string line; std::getline(file, line) && !cpu.has("modelid");) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::string key = line.substr(0, colon);
    key.erase(key.find_last_not_of(" \t") + 1);
    for (const auto& [field, attribute] : kFields)
      if (key == field && colon + 2 <= line.size()) cpu.set_if_missing(attribute, line.substr(colon + 2));
  }
  return cpu;
}

Element Sysfs::pci(const std::string& busid) const {
  const fs::path folder = fs::path("sys/bus/pci/devices") / busid;
  Element pci{"pci", {{"busid", busid}}, {}};
  for (const char* name : {"class", "vendor", "device", "subsystem_vendor", "subsystem_device"})
    if (const std::string value = read(folder / name); !value.empty()) pci.set(name, value);
  // A link is as fast as the slower of its two ends. The folder above the device is that of the port above.
  std::error_code error;
  const fs::path above = fs::canonical(root_ / folder, error).parent_path();
  for (const auto& [file, attribute] :
       {std::pair("max_link_speed", "link_speed"), std::pair("max_link_width", "link_width")}) {
    std::string own = read(folder / file);
    if (is_busid(above.filename().string())) {
      const std::string of_port = read(fs::path("sys/bus/pci/devices") / above.filename() / file);
      if (leading_number(of_port) > 0 && leading_number(of_port) < leading_number(own)) own = of_port;
    }
    // A bridge without a link reports "Unknown" or a width of 255.
    if (leading_number(own) > 0 && leading_number(own) < 255) pci.set(attribute, own);
  }
  return pci;
}

std::optional<Chain> Sysfs::chain(const std::string& busid) const {
  const fs::path link = fs::path("sys/bus/pci/devices") / busid;
  std::error_code error;
  const fs::path real = fs::canonical(root_ / link, error);
  if (error) return std::nullopt;
  std::vector<std::string> way;
  for (const fs::path& part : real)
    if (is_busid(part.string())) way.push_back(part.string());
  if (way.empty()) return std::nullopt;
  const std::string node = read(link / "numa_node");
  Chain chain{cpu(std::max(0, std::atoi(node.c_str())))};
  for (const std::string& one : without_lower_ports(way)) chain.push_back(pci(one));
  return chain;
}

std::vector<Nic> Sysfs::nics() const {
  std::vector<Nic> nics;
  std::set<std::string> taken;
  const auto names = [&](const fs::path& folder) {
    std::vector<std::string> sorted = names_in((root_ / folder).c_str());
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  };
  const auto add = [&](const std::string& busid, const std::string& name, double mbits_per_s) {
    taken.insert(busid);
    nics.push_back(
        {busid,
         {"net",
          {{"name", name}, {"dev", std::to_string(nics.size())}, {"speed", fmt::format("{:.0f}", mbits_per_s)}},
          {}}});
  };
  for (const std::string& name : names("sys/class/infiniband")) {
    const fs::path folder = fs::path("sys/class/infiniband") / name;
    if (const std::string busid = busid_behind(folder / "device"); !busid.empty()) {
      add(busid, name, 1000 * leading_number(read(folder / "ports/1/rate")));
      nics.back().net.set("port", "1");
      if (const std::string guid = read(folder / "node_guid"); !guid.empty()) nics.back().net.set("guid", guid);
    }
  }
  for (const std::string& name : names("sys/class/net")) {
    const fs::path folder = fs::path("sys/class/net") / name;
    const std::string busid = busid_behind(folder / "device");
    if (!busid.empty() && !taken.contains(busid))
      add(busid, name, std::max(0.0, leading_number(read(folder / "speed"))));
  }
  return nics;
}

}  // namespace sccl::topology::probe
