// A machine as NCCL describes it: a tree of CPUs, PCI devices, GPUs and NICs. Probes and XML files both give this tree;
// a Topology is made from it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sccl::topology {

struct Element {
  std::string tag;
  std::vector<std::pair<std::string, std::string>> attributes;  // in the order they are written
  std::vector<Element> children;

  // Empty when the attribute is missing.
  std::string_view get(std::string_view name) const;
  bool has(std::string_view name) const;
  // A new value for an existing attribute keeps the attribute's position.
  void set(std::string_view name, std::string value);
  void set_if_missing(std::string_view name, std::string value);
  double number(std::string_view name, double fallback) const;
  // The number clamped to [low, high]; `fallback` where the attribute is missing or no number.
  int integer(std::string_view name, int fallback, int low, int high) const;

  // The child with this tag and this value of attribute `key`; added when missing.
  Element& child(std::string_view tag, std::string_view key, std::string_view value);
};

// "0000:0a:00.0" for any spelling of a PCI address: with a domain of eight digits, in capitals, without a function.
std::string normal_busid(std::string_view busid);

// Calls `call` for every element, parents first.
void visit(const Element& root, const std::function<void(const Element&)>& call);

// Completes a file's description with what was detected. Attributes of the file win; missing attributes are filled in;
// elements missing from the file are added below their parents. A PCI device is the same device wherever it stands in
// the tree.
void merge(Element& file, const Element& detected);

// Removes all GPUs but these (PCI addresses), and PCI devices and switches that lead to no kept GPU and no NIC.
void keep_gpus(Element& system, const std::vector<std::string>& busids);

// PCI addresses of the GPUs, in the order of their ranks if they have ranks, else of their device numbers.
std::vector<std::string> gpu_busids(const Element& system);

}  // namespace sccl::topology
