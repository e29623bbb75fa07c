// A machine as NCCL describes it: a tree of CPUs, PCI devices, GPUs and NICs. What the probes find and what XML files
// say meet here, before a Topology is made of them.
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

  // Empty when there is none.
  std::string_view get(std::string_view name) const;
  bool has(std::string_view name) const;
  // Keeps the place of an attribute that is there.
  void set(std::string_view name, std::string value);
  void set_if_missing(std::string_view name, std::string value);
  double number(std::string_view name, double fallback) const;
  // The number brought into [low, high]; `fallback` where there is none.
  int integer(std::string_view name, int fallback, int low, int high) const;

  // The child with this tag and this value of the attribute; added when there is none.
  Element& child(std::string_view tag, std::string_view key, std::string_view value);
};

// "0000:0a:00.0" for any spelling of a PCI address: domains of eight digits, capitals, no function.
std::string normal_busid(std::string_view busid);

// Calls for every element, parents first.
void visit(const Element& root, const std::function<void(const Element&)>& call);

// What was detected, put into what a file says: attributes of the file win, missing ones are filled, elements the file
// does not know are added where their parents are. PCI devices are the same wherever in the tree they stand.
void merge(Element& file, const Element& detected);

// Only these GPUs (PCI addresses) stay, and the switches and CPUs above them; NICs stay where a switch or CPU does.
void keep_gpus(Element& system, const std::vector<std::string>& busids);

// PCI addresses of the GPUs, in the order of their ranks where they have any, else of their device numbers.
std::vector<std::string> gpu_busids(const Element& system);

}  // namespace sccl::topology
