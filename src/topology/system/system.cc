#include "topology/system/system.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <tuple>

namespace sccl::topology {
namespace {

// The attribute that identifies an element among its siblings; empty: there is at most one such sibling.
std::string_view key_of(std::string_view tag) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kKeys{{{"cpu", "numaid"},
                                                                                {"pci", "busid"},
                                                                                {"gpu", "dev"},
                                                                                {"nvlink", "target"},
                                                                                {"xgmi", "target"},
                                                                                {"pcilink", "target"},
                                                                                {"net", "name"}}};
  for (const auto& [of, key] : kKeys)
    if (of == tag) return key;
  return "";
}

bool is_busid(std::string_view attribute) { return attribute == "busid" || attribute == "target"; }

bool same(const Element& a, const Element& b) {
  if (a.tag != b.tag) return false;
  const std::string_view key = key_of(a.tag);
  if (key.empty()) return true;
  if (a.tag == "cpu" && a.has("host_hash") && b.has("host_hash") && a.get("host_hash") != b.get("host_hash"))
    return false;
  if (is_busid(key)) return normal_busid(a.get(key)) == normal_busid(b.get(key));
  // A PCI device holds one GPU. The device number in the file may come from another run, so it is not compared.
  return a.tag == "gpu" || a.get(key) == b.get(key);
}

Element* find_pci(Element& root, std::string_view busid) {
  for (Element& child : root.children) {
    if (child.tag == "pci" && normal_busid(child.get("busid")) == busid) return &child;
    if (Element* found = find_pci(child, busid)) return found;
  }
  return nullptr;
}

void merge_children(Element& root, Element& into, const Element& from);

Element& counterpart(Element& root, Element& into, const Element& wanted) {
  if (wanted.tag == "pci")
    if (Element* found = find_pci(root, normal_busid(wanted.get("busid")))) return *found;
  for (Element& child : into.children)
    if (same(child, wanted)) return child;
  return into.children.emplace_back(Element{wanted.tag, {}, {}});
}

void merge_children(Element& root, Element& into, const Element& from) {
  for (const Element& child : from.children) {
    Element& known = counterpart(root, into, child);
    for (const auto& [name, value] : child.attributes) known.set_if_missing(name, value);
    merge_children(root, known, child);
  }
}

bool holds_kept_gpu(const Element& element, const std::vector<std::string>& kept) {
  if (element.tag == "pci" && std::any_of(element.children.begin(), element.children.end(),
                                          [](const Element& child) { return child.tag == "gpu"; }))
    return std::find(kept.begin(), kept.end(), normal_busid(element.get("busid"))) != kept.end();
  return std::any_of(element.children.begin(), element.children.end(),
                     [&](const Element& child) { return holds_kept_gpu(child, kept); });
}

bool holds_nic(const Element& element) {
  return element.tag == "nic" || std::any_of(element.children.begin(), element.children.end(), holds_nic);
}

void trim(Element& element, const std::vector<std::string>& kept) {
  std::erase_if(element.children, [&](const Element& child) {
    if (child.tag != "pci") return false;
    const bool is_gpu = std::any_of(child.children.begin(), child.children.end(),
                                    [](const Element& below) { return below.tag == "gpu"; });
    return is_gpu ? !holds_kept_gpu(child, kept) : !holds_kept_gpu(child, kept) && !holds_nic(child);
  });
  for (Element& child : element.children)
    if (child.tag == "cpu" || child.tag == "pci") trim(child, kept);
}

}  // namespace

std::string_view Element::get(std::string_view name) const {
  for (const auto& [known, value] : attributes)
    if (known == name) return value;
  return {};
}

bool Element::has(std::string_view name) const {
  return std::any_of(attributes.begin(), attributes.end(), [&](const auto& one) { return one.first == name; });
}

void Element::set(std::string_view name, std::string value) {
  for (auto& [known, present] : attributes)
    if (known == name) {
      present = std::move(value);
      return;
    }
  attributes.emplace_back(name, std::move(value));
}

void Element::set_if_missing(std::string_view name, std::string value) {
  if (!has(name)) attributes.emplace_back(name, std::move(value));
}

double Element::number(std::string_view name, double fallback) const {
  const std::string_view text = get(name);
  double value = fallback;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && value == value && end != text.data() ? value : fallback;
}

int Element::integer(std::string_view name, int fallback, int low, int high) const {
  return static_cast<int>(std::clamp<double>(number(name, fallback), low, high));
}

Element& Element::child(std::string_view wanted, std::string_view key, std::string_view value) {
  for (Element& known : children)
    if (known.tag == wanted && known.get(key) == value) return known;
  Element& added = children.emplace_back(Element{std::string(wanted), {}, {}});
  added.set(key, std::string(value));
  return added;
}

std::string normal_busid(std::string_view busid) {
  std::string text(busid);
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  if (std::count(text.begin(), text.end(), ':') == 1) text = "0000:" + text;
  const std::size_t domain = text.find(':');
  if (domain != std::string::npos && domain > 4 && text.find_first_not_of('0') >= domain - 4) text.erase(0, domain - 4);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

void visit(const Element& root, const std::function<void(const Element&)>& call) {
  call(root);
  for (const Element& child : root.children) visit(child, call);
}

void merge(Element& file, const Element& detected) {
  for (const auto& [name, value] : detected.attributes) file.set_if_missing(name, value);
  merge_children(file, file, detected);
}

void keep_gpus(Element& system, const std::vector<std::string>& busids) {
  std::vector<std::string> kept;
  for (const std::string& busid : busids) kept.push_back(normal_busid(busid));
  trim(system, kept);
}

std::vector<std::string> gpu_busids(const Element& system) {
  struct Found {
    bool has_rank;
    double rank, device;
    std::string busid;
  };
  std::vector<Found> found;
  visit(system, [&](const Element& element) {
    if (element.tag != "pci") return;
    for (const Element& gpu : element.children)
      if (gpu.tag == "gpu")
        found.push_back(
            {gpu.has("rank"), gpu.number("rank", 0), gpu.number("dev", 0), normal_busid(element.get("busid"))});
  });
  // NCCL leaves out GPUs without a rank. A file in which no GPU has a rank describes a machine, not a run: all GPUs
  // count.
  if (std::any_of(found.begin(), found.end(), [](const Found& one) { return one.has_rank; }))
    std::erase_if(found, [](const Found& one) { return !one.has_rank; });
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::tie(a.rank, a.device) < std::tie(b.rank, b.device);
  });
  std::vector<std::string> busids;
  for (Found& one : found) busids.push_back(std::move(one.busid));
  return busids;
}

}  // namespace sccl::topology
