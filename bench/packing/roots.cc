#include "roots.h"

#include <fmt/format.h>

#include <algorithm>

#include "figures.h"
#include "rings.h"
#include "topology/presets.h"
#include "topology/symmetry/canonical.h"

namespace sccl::bench {
namespace {

using treegen::to_double;

struct Class {
  std::vector<int> devices;
  topology::Topology part;
};

std::vector<Class> classes_of(const char* machine) {
  const auto whole = topology::preset(machine);
  std::vector<Class> classes;
  for (const auto& one : topology::subset_classes(whole, 3, 8))
    classes.push_back({one.devices, topology::subset(whole, one.devices)});
  return classes;
}

double lane_gbytes_per_s(const topology::Topology& part) {
  return part.links.front().gbytes_per_s / part.links.front().lanes;
}

// By root.
struct Speedups {
  std::vector<double> bound;
  std::vector<double> simulated;
};

Speedups broadcast_speedups(const topology::Topology& part) {
  Speedups speedups;
  const RingRates rates = ring_rates(part);
  for (Rank root = 0; root < part.ranks; ++root) {
    const auto packing = treegen::pack(part, Collective::broadcast, root);
    speedups.bound.push_back(to_double(packing.optimum) / rates.broadcast);
    speedups.simulated.push_back(simulated_us(ring_schedule(part, Collective::broadcast, root), kBytes) /
                                 offered_us(part, packing));
  }
  return speedups;
}

// What the paper says of PCIe: a rate in lanes of an NVLink, or in GB/s.
struct PcieRate {
  const char* name;
  double lanes;
  double gbytes_per_s;

  double lanes_of(const topology::Topology& part) const {
    return gbytes_per_s > 0 ? gbytes_per_s / lane_gbytes_per_s(part) : lanes;
  }
};

constexpr PcieRate kPcieRates[] = {{"half a lane (5.1)", kPcieLanes, 0},
                                   {"12 GB/s (1: most)", 0, 12},
                                   {"10 GB/s (1: middle)", 0, 10},
                                   {"8 GB/s (1: least)", 0, 8}};

std::string least_most_mean(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return fmt::format("{:.2f} | {:.2f} | {:.2f}", *least, *most, geometric_mean(values));
}

// Root: the first device.
class AgainstRings {
 public:
  AgainstRings(const std::vector<Class>& classes, Collective collective) : collective_(collective) {
    for (const Class& one : classes) {
      const auto packing = treegen::pack(one.part, collective, 0);
      offers_.push_back({&one.part, to_double(packing.optimum), offered_us(one.part, packing)});
    }
  }

  std::string cells(const PcieRate& pcie) const {
    std::vector<double> bound;
    std::vector<double> simulated;
    for (const Offer& offer : offers_) {
      const double lanes = pcie.lanes_of(*offer.part);
      const RingRates rates = ring_rates(*offer.part, lanes);
      bound.push_back(offer.optimum / (collective_ == Collective::broadcast ? rates.broadcast : rates.allreduce));
      simulated.push_back(simulated_us(ring_schedule(*offer.part, collective_, 0, lanes), kBytes) / offer.time_us);
    }
    return fmt::format("{:.2f} | {:.2f} | {} |", *std::max_element(bound.begin(), bound.end()), geometric_mean(bound),
                       least_most_mean(simulated));
  }

 private:
  struct Offer {
    const topology::Topology* part;
    double optimum;
    double time_us;
  };

  Collective collective_;
  std::vector<Offer> offers_;
};

}  // namespace

std::string root_table() {
  std::string text =
      "\n### Roots\n\nBroadcast, speedup over rings with PCIe at half a lane: Edmonds' rate over the rings' rate, "
      "which no "
      "schedule exceeds, and simulated. All links lead both ways, so that a minimum cut is as wide seen from either "
      "side "
      "and every root of a class has the same rate.\n\n| machine | root | classes where it matters | bound: least | "
      "most | "
      "mean | simulated: least | most | mean |\n|---|---|---|---|---|---|---|---|---|\n";
  for (const char* machine : {"dgx1p", "dgx1v"}) {
    struct Choice {
      const char* name;
      double (*of)(const std::vector<double>& by_root);
      Speedups all;
    };
    Choice choices[] = {
        {"first device", [](const std::vector<double>& values) { return values.front(); }, {}},
        {"best", [](const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); }, {}},
        {"mean", mean, {}}};
    int matters = 0;
    for (const Class& one : classes_of(machine)) {
      const Speedups by_root = broadcast_speedups(one.part);
      const auto [least, most] = std::minmax_element(by_root.bound.begin(), by_root.bound.end());
      matters += *most > *least ? 1 : 0;
      for (Choice& choice : choices) {
        choice.all.bound.push_back(choice.of(by_root.bound));
        choice.all.simulated.push_back(choice.of(by_root.simulated));
      }
    }
    for (const Choice& choice : choices)
      text += fmt::format("| {} | {} | {} | {} | {} |\n", machine, choice.name, matters,
                          least_most_mean(choice.all.bound), least_most_mean(choice.all.simulated));
  }
  return text;
}

std::string pcie_table() {
  std::string text =
      "\n### What PCIe gives the rings\n\nBlink's theory takes half of an NVLink (5.1) and says that speedups in "
      "practice can "
      "be higher because PCIe does worse; its introduction gives PCIe 8 to 12 GB/s beside NVLinks of 20 to 25. All "
      "classes, root: the first device. The paper's theory ends at 6x; it measured Broadcast up to 6x (geometric mean "
      "2x) on a DGX-1V and 3x (1.6x) on a DGX-1P, AllReduce up to 8x (2x). With half "
      "of an NVLink no Broadcast exceeds 4x on any class; its 6x and 2x are what 8 GB/s allow, and the rates below "
      "reach the "
      "bounds.\n\n"
      "| machine | PCIe ring | Broadcast bound, most | mean | simulated, least | most | mean | AllReduce bound, most | "
      "mean "
      "| simulated, least | most | mean |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const char* machine : {"dgx1p", "dgx1v"}) {
    const auto classes = classes_of(machine);
    const AgainstRings broadcast(classes, Collective::broadcast);
    const AgainstRings allreduce(classes, Collective::allreduce);
    for (const PcieRate& pcie : kPcieRates)
      text += fmt::format("| {} | {} | {} {}\n", machine, pcie.name, broadcast.cells(pcie), allreduce.cells(pcie));
  }
  return text;
}

}  // namespace sccl::bench
