// Packings of every class of allocations of a DGX-1 and of every preset, against NCCL-style rings; writes Markdown and
// a plot. Usage: bench_packing [MARKDOWN [SVG]]   (default: Markdown to the terminal)
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>

#include "figures.h"
#include "hybrid.h"
#include "plot.h"
#include "rings.h"
#include "roots.h"
#include "topology/presets.h"
#include "topology/symmetry/canonical.h"
#include "treegen/packing/fewest.h"
#include "treegen/packing/mwu.h"
#include "treegen/schedules/three_phase.h"
#include "treegen/schedules/to_schedule.h"

namespace {

using namespace sccl;
using namespace sccl::treegen;
using bench::kBytes;
using bench::offered_us;
using bench::simulated_us;
using bench::summary;

constexpr int kRepeats = 5;
constexpr double kLongMs = 2000;  // what takes longer is not repeated

double median_ms(const std::function<void()>& work) {
  std::vector<double> times;
  double all = 0;
  for (int repeat = 0; repeat < kRepeats && all < kLongMs; ++repeat) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    all += times.back();
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

struct Speedups {
  std::vector<double> broadcast;
  std::vector<double> allreduce;
  std::vector<double> simulated_broadcast;
  std::vector<double> simulated_allreduce;
};

std::string class_row(const topology::Topology& part, const std::vector<int>& devices, Speedups& speedups) {
  const Packing broadcast = pack(part, Collective::broadcast, 0);
  const Packing allreduce = pack(part, Collective::allreduce, 0);
  const double ms = median_ms([&] {
    pack(part, Collective::broadcast, 0);
    pack(part, Collective::allreduce, 0);
  });
  const Links links(part);
  const MwuPacking mwu = pack_by_weights(links, 0, {});
  const SelectedTrees selected = select_candidates(links, mwu.trees, mwu.rate, 0.05);
  const bench::RingRates rings = bench::ring_rates(part);
  const auto faster = [&](Collective collective, const Packing& packing) {
    return simulated_us(bench::ring_schedule(part, collective, 0), kBytes) / offered_us(part, packing);
  };
  speedups.broadcast.push_back(to_double(broadcast.rate) / rings.broadcast);
  speedups.allreduce.push_back(to_double(allreduce.rate) / rings.allreduce);
  speedups.simulated_broadcast.push_back(faster(Collective::broadcast, broadcast));
  speedups.simulated_allreduce.push_back(faster(Collective::allreduce, allreduce));
  return fmt::format(
      "| {} | {} | {} | {:.2f} | {} | {} | {}{} | {} | {} | {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.1f} |\n",
      devices.size(), bench::list(devices), to_text(broadcast.rate), mwu.rate, mwu.trees.size(), selected.trees.size(),
      broadcast.routes.size(), broadcast.fewest_proved && broadcast.least_depth_proved ? "" : "?", broadcast.depth(),
      to_text(allreduce.rate), allreduce.routes.size(), rings.rings == 0 ? "PCIe" : std::to_string(rings.rings),
      speedups.broadcast.back(), speedups.allreduce.back(), speedups.simulated_broadcast.back(),
      speedups.simulated_allreduce.back(), ms);
}

std::string classes(const char* machine, Speedups& speedups) {
  const auto whole = topology::preset(machine);
  const auto found = topology::subset_classes(whole, 3, 8);
  std::string text = fmt::format(
      "\n## {}: {} classes of three to eight devices\n\n"
      "Root: the first device. Rates in lanes; trees: the candidates of multiplicative weights, those selected from "
      "them "
      "within 5 %, the fewest that reach the optimum (? where that is not proved). Speedups over rings: of the rates, "
      "and "
      "simulated for 500 MB. Time: packing Broadcast and AllReduce together, median of {}.\n\n"
      "| GPUs | devices | Broadcast | MWU rate | MWU trees | selected | fewest | depth | AllReduce | trees | rings | "
      "Broadcast x | AllReduce x | simulated Broadcast x | simulated AllReduce x | ms |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
      machine, found.size(), kRepeats);
  for (const auto& one : found) text += class_row(topology::subset(whole, one.devices), one.devices, speedups);
  text += fmt::format("\nOver rings: Broadcast {}; AllReduce {}.\nSimulated, 500 MB: Broadcast {}; AllReduce {}.\n",
                      summary(speedups.broadcast), summary(speedups.allreduce), summary(speedups.simulated_broadcast),
                      summary(speedups.simulated_allreduce));
  return text;
}

std::string preset_rows(const char* name) {
  const auto machine = topology::preset(name);
  std::string text;
  for (const Collective collective : {Collective::broadcast, Collective::reduce, Collective::allreduce,
                                      Collective::allgather, Collective::reducescatter}) {
    const Packing packing = pack(machine, collective, 0);
    const double ms = median_ms([&] { pack(machine, collective, 0); });
    std::string mwu = "";
    if (collective == Collective::broadcast) {
      const MwuPacking approximate = pack_by_weights(Links(machine), 0, {});
      mwu = fmt::format("{:.2f} in {} trees", approximate.rate, approximate.trees.size());
    }
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {}{} | {} | {:.1f} |\n", name, info(collective).name,
                        to_text(packing.optimum), packing.proof == Proof::cut ? "cut" : "linear program",
                        to_text(packing.rate), mwu, packing.routes.size(), packing.fewest_proved ? ", proved" : "",
                        packing.depth(), ms);
  }
  return text;
}

std::string presets() {
  std::string text =
      "\n## Presets\n\nRates in lanes; of one rank's block for AllGather and ReduceScatter. `proved`: no packing has "
      "fewer "
      "trees.\n\n| machine | collective | optimum | proof | rate | MWU | trees | depth | ms "
      "|\n|---|---|---|---|---|---|---|---|---|\n";
  for (const char* name : {"dgx1p", "dgx1v", "dgx2", "dgx-a100", "dgx-h100", "z52", "z52-full", "mi250x", "mi300x",
                           "pcie4", "pcie8", "nvpairs4", "2*dgx1v", "2*dgx-a100", "2*mi250x"})
    text += preset_rows(name);
  return text;
}

std::string hybrid_rows() {
  std::string text =
      "\n## NVLink and PCIe at once (figure 21)\n\nBroadcast of 500 MB from the first of n devices of a DGX-1V, PCIe "
      "as in "
      "preset pcie8, 100 us per device to switch links (assumed: the paper says that it grows with their number). "
      "Simulated.\n\n| devices | share of PCIe | NVLink GB/s | both GB/s |\n|---|---|---|---|\n";
  for (int devices = 3; devices <= 8; ++devices) {
    std::vector<int> kept;
    for (int device = 0; device < devices; ++device) kept.push_back(device);
    const auto nvlink = topology::subset(topology::preset("dgx1v"), kept);
    const auto pcie = topology::subset(topology::preset("pcie8"), kept);
    const double switch_us = 100.0 * devices;
    const HybridPlan plan = hybrid(nvlink, pcie, Collective::broadcast, 0, kBytes, switch_us);
    const double alone = simulated_us(plan.fast, kBytes);
    const double both = std::max(simulated_us(plan.fast, kBytes * (1 - plan.slow_fraction)),
                                 switch_us + simulated_us(plan.slow, kBytes * plan.slow_fraction));
    text += fmt::format("| {} | {:.1f} % | {:.1f} | {:.1f} |\n", devices, 100 * plan.slow_fraction,
                        kBytes / alone / 1e3, kBytes / both / 1e3);
  }
  return text;
}

std::string servers_rows() {
  std::string text =
      "\n## Several servers (figure 10)\n\nAllReduce of 500 MB, NICs of 100 Gbit/s: three phases against trees packed "
      "over "
      "all links jointly. Simulated.\n\n| machine | three phases ms | joint trees ms | joint optimum alone ms "
      "|\n|---|---|---|---|\n";
  for (const char* name : {"2*dgx1v", "2*dgx-a100", "4*dgx1p"}) {
    const auto machine = topology::preset(name);
    const Packing joint = pack(machine, Collective::allreduce, 0);
    text += fmt::format("| {} | {:.2f} | {:.2f} | {:.2f} |\n", name,
                        simulated_us(*three_phase(machine, Collective::allreduce, 0), kBytes) / 1e3,
                        simulated_us(to_schedule(machine, joint), kBytes) / 1e3,
                        kBytes / packed_gbytes_per_s(machine, Collective::allreduce, 0) / 1e6);
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  Speedups pascal;
  Speedups volta;
  std::string text =
      "# Packing of spanning trees\n\nCommand: `bench_packing docs/results/packing.md docs/results/packing.svg` (build "
      "target `bench_packing`), one thread.\n\n![speedups over rings](packing.svg)\n\n"
      "Rings are what NCCL builds: as many edge-disjoint NVLink cycles through all devices as there are, each used "
      "both "
      "ways, else one ring over PCIe at half the rate of an NVLink lane (Blink 5.1). Simulated: the packed trees in 1, "
      "8, "
      "32, 96 or 256 frames, or rings where they are faster, which the planner offers too.\n";
  text += classes("dgx1p", pascal);
  text += classes("dgx1v", volta);
  text += "\n## What is possible\n";
  text += bench::root_table();
  text += bench::pcie_table();
  text += presets();
  text += hybrid_rows();
  text += servers_rows();
  if (argc > 1)
    std::ofstream(argv[1]) << text;
  else
    std::puts(text.c_str());
  if (argc > 2)
    std::ofstream(argv[2]) << bench::box_plot({{"DGX-1P Broadcast", pascal.broadcast},
                                               {"DGX-1P AllReduce", pascal.allreduce},
                                               {"DGX-1V Broadcast", volta.broadcast},
                                               {"DGX-1V AllReduce", volta.allreduce},
                                               {"DGX-1V Broadcast, simulated", volta.simulated_broadcast},
                                               {"DGX-1V AllReduce, simulated", volta.simulated_allreduce}},
                                              "Speedup of packed trees over rings");
  return 0;
}
