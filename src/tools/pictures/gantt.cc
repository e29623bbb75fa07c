#include "tools/pictures/gantt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tools/pictures/drawing.h"

namespace sccl::tools {
namespace {

using schedule::EdgeId;
using schedule::Send;
using schedule::SendKind;
using schedule::Transfer;

constexpr std::size_t kMostRows = 96;
constexpr double kLeft = 90;
constexpr double kRight = 70;
constexpr double kTop = 96;
constexpr double kPlot = 860;
constexpr double kRow = 14;
constexpr double kBottom = 36;

// Slices of one step that follow one another on a lane without a gap.
struct Bar {
  schedule::Step step = 0;
  SendKind kind = SendKind::copy;
  double begin_us = 0;
  double end_us = 0;
  std::set<schedule::ChunkId> chunks;
};

using Row = std::pair<EdgeId, int>;  // lane of a link

std::map<Row, std::vector<Bar>> bars_of(const schedule::Schedule& schedule, const schedule::Simulation& simulation,
                                        double shortest_gap_us) {
  std::map<Row, std::vector<Bar>> rows;
  for (const Transfer& transfer : simulation.transfers) {
    const Send& send = schedule.sends[static_cast<std::size_t>(transfer.send)];
    auto& bars = rows[{transfer.edge, transfer.lane}];
    const bool joins = !bars.empty() && bars.back().step == send.step && bars.back().kind == send.kind &&
                       transfer.begin_us - bars.back().end_us <= shortest_gap_us;
    if (!joins) bars.push_back({send.step, send.kind, transfer.begin_us, transfer.end_us, {}});
    bars.back().end_us = std::max(bars.back().end_us, transfer.end_us);
    bars.back().chunks.insert(send.chunk);
  }
  return rows;
}

// Keeps the rows of the busiest links; all rows if they fit.
void keep_busiest(std::map<Row, std::vector<Bar>>& rows, const schedule::Simulation& simulation) {
  if (rows.size() <= kMostRows) return;
  std::vector<schedule::EdgeUse> uses = simulation.edges;
  std::stable_sort(uses.begin(), uses.end(), [](const auto& a, const auto& b) { return a.busy_us > b.busy_us; });
  std::map<EdgeId, int> lanes;
  for (const auto& row : rows) ++lanes[row.first.first];
  std::set<EdgeId> kept;
  std::size_t count = 0;
  for (const schedule::EdgeUse& use : uses) {
    if (count + static_cast<std::size_t>(lanes[use.edge]) > kMostRows) break;
    count += static_cast<std::size_t>(lanes[use.edge]);
    kept.insert(use.edge);
  }
  std::erase_if(rows, [&](const auto& row) { return !kept.contains(row.first.first); });
}

// 1, 2 or 5 times a power of ten, so that about eight ticks fit.
double tick_us(double time_us) {
  const double rough = std::max(time_us, 1e-6) / 8;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) return factor * power;
  return 10 * power;
}

class Chart {
 public:
  Chart(const schedule::Schedule& schedule, const schedule::Simulation& simulation, const std::string& title)
      : schedule_(schedule),
        edges_(schedule.topology),
        time_us_(std::max(simulation.time_us, 1e-9)),
        rows_(bars_of(schedule, simulation, time_us_ / kPlot / 4)) {
    links_ = simulation.edges.size();
    keep_busiest(rows_, simulation);
    height_ = kTop + kRow * static_cast<double>(rows_.size()) + kBottom;
    drawing_ = Drawing(kLeft + kPlot + kRight, height_, title);
    drawing_.text(16, 26, "title", title);
    legend();
  }

  std::string draw() && {
    axis();
    double y = kTop;
    EdgeId last = -1;
    for (const auto& [row, bars] : rows_) {
      draw_row(row, bars, y, row.first != last);
      last = row.first;
      y += kRow;
    }
    return std::move(drawing_).finish();
  }

 private:
  double x_of(double us) const { return kLeft + us / time_us_ * kPlot; }

  void legend() {
    double x = 16;
    const double y = 48;
    drawing_.text(x, y, "quiet", "step");
    x += 34;
    const int shown = std::min(schedule_.steps, Drawing::kScale);
    for (int i = 0; i < shown; ++i) {
      const int step = shown <= 1 ? 0 : i * (schedule_.steps - 1) / (shown - 1);
      drawing_.box(x, y - 11, 14, 14, scale_class(step, schedule_.steps));
      drawing_.text(x + 18, y, "quiet", std::to_string(step));
      x += 28 + 8.0 * static_cast<double>(std::to_string(step).size());
    }
    if (schedule_.steps > shown) drawing_.text(x, y, "quiet small", "(others between)");
    x += schedule_.steps > shown ? 110 : 24;
    drawing_.box(x, y - 11, 26, 14, scale_class(schedule_.steps / 3, schedule_.steps));
    stripes(x, y - 11, 26, 14);
    drawing_.text(x + 32, y, "quiet", "striped: the receiver adds");
    std::string note = "rows: links and their lanes; right: share of the time a lane is busy";
    if (rows_.size() >= kMostRows - 8 && shown_links() < links_)
      note += fmt::format("; the {} busiest of {} links", shown_links(), links_);
    drawing_.text(16, 68, "quiet small", note);
  }

  std::size_t shown_links() const {
    std::set<EdgeId> edges;
    for (const auto& row : rows_) edges.insert(row.first.first);
    return edges.size();
  }

  void axis() {
    const double tick = tick_us(time_us_);
    const bool in_ms = time_us_ >= 10000;
    for (double us = 0; us <= time_us_ * 1.0001; us += tick) {
      drawing_.line(x_of(us), kTop - 6, x_of(us), height_ - kBottom + 4, "grid");
      drawing_.text(x_of(us), height_ - kBottom + 18, "quiet small", fmt::format("{:.6g}", in_ms ? us / 1000 : us),
                    "middle");
    }
    drawing_.text(kLeft + kPlot + 12, height_ - kBottom + 18, "quiet small", in_ms ? "ms" : "us");
  }

  void draw_row(const Row& row, const std::vector<Bar>& bars, double y, bool first_of_link) {
    const schedule::EdgeInfo& edge = edges_[row.first];
    drawing_.box(kLeft, y + 1, kPlot, kRow - 2, "row");
    if (first_of_link)
      drawing_.text(kLeft - 8, y + kRow - 3.5, "small",
                    fmt::format("{} → {}", node(edge.ends.first), node(edge.ends.second)), "end");
    double busy_us = 0;
    for (const Bar& bar : bars) {
      busy_us += bar.end_us - bar.begin_us;
      const double width = std::max(0.6, x_of(bar.end_us) - x_of(bar.begin_us) - 0.4);
      drawing_.box(x_of(bar.begin_us), y + 1.5, width, kRow - 3, scale_class(bar.step, schedule_.steps),
                   hint(edge, bar));
      if (bar.kind == SendKind::reduce) stripes(x_of(bar.begin_us), y + 1.5, width, kRow - 3);
    }
    drawing_.text(kLeft + kPlot + 8, y + kRow - 3.5, "quiet small", fmt::format("{:.0f} %", 100 * busy_us / time_us_));
  }

  std::string node(topology::Node node) const {
    return node < schedule_.ranks ? std::to_string(node) : fmt::format("sw{}", node - schedule_.ranks);
  }

  std::string hint(const schedule::EdgeInfo& edge, const Bar& bar) const {
    std::string chunks;
    for (const schedule::ChunkId chunk : bar.chunks) {
      if (chunks.size() > 60) {
        chunks += " ...";
        break;
      }
      chunks += fmt::format(" {}", chunk);
    }
    return fmt::format("{} to {}, step {}, {}: chunk{}{}, {:.2f} to {:.2f} us", node(edge.ends.first),
                       node(edge.ends.second), bar.step, bar.kind == SendKind::reduce ? "adds" : "copies",
                       bar.chunks.size() > 1 ? "s" : "", chunks, bar.begin_us, bar.end_us);
  }

  void stripes(double x, double y, double width, double height) {
    constexpr double kGap = 6;
    std::string data;
    for (double at = x + kGap; at < x + width; at += kGap) {
      const double run = std::min(height, at - x);
      data += fmt::format("M{:.1f} {:.1f}l{:.1f} {:.1f}", at, y, -run, run);
    }
    if (!data.empty()) drawing_.path(data, "stripe", 1.2);
  }

  const schedule::Schedule& schedule_;
  schedule::EdgeIndex edges_;
  double time_us_;
  std::map<Row, std::vector<Bar>> rows_;
  std::size_t links_ = 0;
  double height_ = 0;
  Drawing drawing_{0, 0, ""};
};

}  // namespace

std::string gantt_svg(const schedule::Schedule& schedule, const schedule::Simulation& simulation,
                      const std::string& title) {
  return Chart(schedule, simulation, title).draw();
}

}  // namespace sccl::tools
