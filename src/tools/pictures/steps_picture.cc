#include "tools/pictures/steps_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <tuple>

#include "tools/pictures/drawing.h"

namespace sccl::tools {
namespace {

using schedule::Send;
using schedule::SendKind;

constexpr int kMostOnCircle = 16;
constexpr std::size_t kMostArrows = 32;  // of a step
constexpr int kMostNumbered = 16;        // rows of a table
constexpr int kMostPanels = 48;
constexpr double kPanel = 216;
constexpr double kGap = 16;
constexpr double kTop = 84;
constexpr int kColumns = 5;
constexpr double kNode = 10;

struct Point {
  double x = 0;
  double y = 0;
};

using Traffic = std::map<std::tuple<Rank, Rank, SendKind>, std::vector<schedule::ChunkId>>;

std::string chunk_list(const std::vector<schedule::ChunkId>& chunks) {
  std::string text;
  for (const schedule::ChunkId chunk : chunks) {
    if (text.size() > 60) return text + " ...";
    text += fmt::format(" {}", chunk);
  }
  return text;
}

class Picture {
 public:
  explicit Picture(const schedule::Schedule& schedule)
      : schedule_(schedule), traffic_(static_cast<std::size_t>(schedule.steps)) {
    for (const Send& send : schedule.sends)
      traffic_[static_cast<std::size_t>(send.step)][{send.src, send.dst, send.kind}].push_back(send.chunk);
    least_chunks_ = schedule.sends.size();
    for (const Traffic& step : traffic_) {
      most_arrows_ = std::max(most_arrows_, step.size());
      for (const auto& [key, chunks] : step) {
        most_chunks_ = std::max(most_chunks_, chunks.size());
        least_chunks_ = std::min(least_chunks_, chunks.size());
      }
    }
  }

  std::string draw() && {
    const int panels = std::min(schedule_.steps, kMostPanels);
    const int columns = std::clamp(panels, 3, kColumns);
    const int rows = std::max(1, (panels + columns - 1) / columns);
    const std::string title =
        fmt::format("{}: {} on {}", schedule_.name, info(schedule_.collective).name, schedule_.topology.name);
    drawing_ = Drawing(kGap + columns * (kPanel + kGap), kTop + rows * (kPanel + kGap), title);
    drawing_.text(kGap, 28, "title", title);
    drawing_.text(kGap, 48, "quiet", subtitle(panels));
    legend();
    for (int i = 0; i < panels; ++i) {
      // The last panel shows the last step, even if earlier steps are left out.
      const int step = i + 1 == panels ? schedule_.steps - 1 : i;
      panel(step, kGap + i % columns * (kPanel + kGap), kTop + i / columns * (kPanel + kGap));
    }
    return std::move(drawing_).finish();
  }

 private:
  std::string subtitle(int panels) const {
    std::string text = fmt::format("{} ranks, {} chunks, {} steps", schedule_.ranks, schedule_.chunks, schedule_.steps);
    if (info(schedule_.collective).rooted) text += fmt::format(", root {}", schedule_.root);
    if (panels < schedule_.steps)
      text += fmt::format(" (steps {} to {} are left out)", panels - 1, schedule_.steps - 2);
    return text;
  }

  void legend() {
    const double y = 68;
    if (circle()) {
      arrow({kGap, y - 4}, {kGap + 34, y - 4}, 0, SendKind::copy, 1, "");
      drawing_.text(kGap + 42, y, "quiet", "copy");
      arrow({kGap + 88, y - 4}, {kGap + 122, y - 4}, 0, SendKind::reduce, 1, "");
      drawing_.text(kGap + 130, y, "quiet", "add (dashed)");
      drawing_.line(kGap + 222, y - 4, kGap + 252, y - 4, "link");
      drawing_.text(kGap + 260, y, "quiet", "link;  " + count_note("wider and numbered"));
    } else {
      drawing_.box(kGap, y - 10, 10, 10, "copyfill");
      drawing_.text(kGap + 16, y, "quiet", "copy");
      drawing_.circle(kGap + 69, y - 5, 5.5, "reducefill");
      drawing_.text(kGap + 80, y, "quiet", "add;  rows send, columns receive;  " + count_note("larger"));
    }
  }

  bool circle() const { return schedule_.ranks <= kMostOnCircle && most_arrows_ <= kMostArrows; }
  bool all_alike() const { return least_chunks_ >= most_chunks_; }

  std::string count_note(const std::string& mark) const {
    if (all_alike()) return fmt::format("{} chunk{} each", most_chunks_, most_chunks_ == 1 ? "" : "s");
    return fmt::format("{}: more chunks ({} to {})", mark, least_chunks_, most_chunks_);
  }

  void panel(int step, double x, double y) {
    const int rounds = schedule_.rounds[static_cast<std::size_t>(step)];
    std::string heading = fmt::format("step {}", step);
    if (!schedule_.pipelined) heading += fmt::format(" · {} round{}", rounds, rounds == 1 ? "" : "s");
    const Traffic& traffic = traffic_[static_cast<std::size_t>(step)];
    numbered_ = std::any_of(traffic.begin(), traffic.end(),
                            [&](const auto& one) { return one.second.size() != traffic.begin()->second.size(); });
    if (!numbered_ && !all_alike() && !traffic.empty())
      heading += fmt::format(" · {} chunk{} each", traffic.begin()->second.size(),
                             traffic.begin()->second.size() == 1 ? "" : "s");
    drawing_.text(x, y + 12, "", heading);
    if (circle())
      on_circle(traffic_[static_cast<std::size_t>(step)], {x + kPanel / 2, y + kPanel / 2 + 8});
    else
      as_table(traffic_[static_cast<std::size_t>(step)], x, y + 20);
  }

  Point place(topology::Node node, Point center) const {
    if (node >= schedule_.ranks) return center;
    const double angle = 2 * std::numbers::pi * node / schedule_.ranks - std::numbers::pi / 2;
    const double radius = kPanel / 2 - kNode - 12;
    return {center.x + radius * std::cos(angle), center.y + radius * std::sin(angle)};
  }

  void on_circle(const Traffic& traffic, Point center) {
    for (const topology::Link& link : schedule_.topology.links) {
      if (link.src > link.dst && schedule_.topology.lanes(link.dst, link.src) > 0) continue;
      const Point a = place(link.src, center);
      const Point b = place(link.dst, center);
      drawing_.line(a.x, a.y, b.x, b.y, "link");
    }
    if (schedule_.topology.switches > 0) drawing_.box(center.x - 6, center.y - 6, 12, 12, "node", "switches");
    for (const auto& [key, chunks] : traffic) {
      const auto& [src, dst, kind] = key;
      const std::string hint =
          fmt::format("{} {} {}: chunk{}{}", src, kind == SendKind::copy ? "copies to" : "is added at", dst,
                      chunks.size() > 1 ? "s" : "", chunk_list(chunks));
      arrow(place(src, center), place(dst, center), kNode + 2, kind, chunks.size(), hint);
    }
    for (Rank rank = 0; rank < schedule_.ranks; ++rank) {
      const Point at = place(rank, center);
      drawing_.circle(at.x, at.y, kNode, "node");
      drawing_.text(at.x, at.y + 4, "small", std::to_string(rank), "middle");
    }
  }

  // Bent to the right, so that both directions of a pair are visible.
  void arrow(Point from, Point to, double clearance, SendKind kind, std::size_t chunks, const std::string& hint) {
    const double length = std::hypot(to.x - from.x, to.y - from.y);
    const Point along{(to.x - from.x) / length, (to.y - from.y) / length};
    const Point side{-along.y, along.x};
    const double bend = clearance > 0 ? std::min(14.0, length * 0.12) : 0;
    const Point middle{(from.x + to.x) / 2 + 2 * bend * side.x, (from.y + to.y) / 2 + 2 * bend * side.y};
    // The ends of the curve point at its control point.
    const auto towards_middle = [&](Point end) {
      const double distance = std::max(1e-9, std::hypot(middle.x - end.x, middle.y - end.y));
      return Point{(middle.x - end.x) / distance, (middle.y - end.y) / distance};
    };
    const Point out = towards_middle(from);
    const Point in = towards_middle(to);
    const double width =
        all_alike() ? 1.6 : 1.2 + 2.6 * static_cast<double>(chunks) / static_cast<double>(most_chunks_);
    const double head = 5 + width;
    const Point begin{from.x + clearance * out.x, from.y + clearance * out.y};
    const Point tip{to.x + clearance * in.x, to.y + clearance * in.y};
    const Point end{tip.x + head * in.x * 0.8, tip.y + head * in.y * 0.8};
    const std::string_view name = kind == SendKind::copy ? "copy" : "reduce";
    drawing_.path(
        fmt::format("M{:.1f} {:.1f}Q{:.1f} {:.1f} {:.1f} {:.1f}", begin.x, begin.y, middle.x, middle.y, end.x, end.y),
        name, width, hint);
    const Point wing{-in.y * head * 0.45, in.x * head * 0.45};
    const Point back{tip.x + head * in.x, tip.y + head * in.y};
    drawing_.path(fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}Z", tip.x, tip.y, back.x + wing.x,
                              back.y + wing.y, back.x - wing.x, back.y - wing.y),
                  kind == SendKind::copy ? "copyfill" : "reducefill", 0);
    if (numbered_ && chunks > 1 && clearance > 0)
      drawing_.text((from.x + to.x) / 2 + 1.7 * bend * side.x, (from.y + to.y) / 2 + 1.7 * bend * side.y + 3, "small",
                    std::to_string(chunks), "middle");
  }

  void as_table(const Traffic& traffic, double x, double y) {
    const bool numbered = schedule_.ranks <= kMostNumbered;
    const double margin = numbered ? 16 : 0;
    const double side = kPanel - 24 - margin;
    const double cell = side / schedule_.ranks;
    x += margin;
    y += margin;
    drawing_.box(x, y, side, side, "cell");
    for (Rank rank = 0; numbered && rank < schedule_.ranks; ++rank) {
      drawing_.text(x + (rank + 0.5) * cell, y - 4, "quiet small", std::to_string(rank), "middle");
      drawing_.text(x - 4, y + (rank + 0.5) * cell + 3.5, "quiet small", std::to_string(rank), "end");
      drawing_.line(x, y + rank * cell, x + side, y + rank * cell, "grid");
      drawing_.line(x + rank * cell, y, x + rank * cell, y + side, "grid");
    }
    for (const auto& [key, chunks] : traffic) {
      const auto& [src, dst, kind] = key;
      const double size = cell * (0.35 + 0.5 * static_cast<double>(chunks.size()) / static_cast<double>(most_chunks_));
      if (kind == SendKind::reduce)
        drawing_.circle(x + (dst + 0.5) * cell, y + (src + 0.5) * cell, size / 2, "reducefill");
      else
        drawing_.box(x + dst * cell + (cell - size) / 2, y + src * cell + (cell - size) / 2, size, size, "copyfill",
                     fmt::format("{} to {}: chunk{}{}", src, dst, chunks.size() > 1 ? "s" : "", chunk_list(chunks)));
    }
  }

  const schedule::Schedule& schedule_;
  std::vector<Traffic> traffic_;
  std::size_t most_chunks_ = 1;
  std::size_t least_chunks_ = 1;
  std::size_t most_arrows_ = 0;
  bool numbered_ = false;  // the numbers of chunks differ, so the arrows of this panel show them
  Drawing drawing_{0, 0, ""};
};

}  // namespace

std::string steps_svg(const schedule::Schedule& schedule) { return Picture(schedule).draw(); }

}  // namespace sccl::tools
