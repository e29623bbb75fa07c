// The colours are those of Okabe and Ito, which colour-blind readers can distinguish.
#include "tools/pictures/topo_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "tools/pictures/topo_report.h"

namespace sccl::tools {
namespace {

using namespace topology;

struct Point {
  double x = 0, y = 0;
};

constexpr double kMargin = 40;
constexpr double kTitle = 64;
constexpr double kLegendLine = 24;
constexpr double kRankRadius = 21;
constexpr double kLaneGap = 5.5;
constexpr int kMostLines = 4;  // lanes drawn side by side; more become one line with a number

struct Style {
  LinkClass link_class;
  std::string_view light, dark, dashes, name;
};

constexpr std::array<Style, 5> kStyles{{{LinkClass::nvlink, "#0072b2", "#56b4e9", "none", "NVLink"},
                                        {LinkClass::xgmi, "#d55e00", "#f0833a", "none", "xGMI"},
                                        {LinkClass::pcie, "#009e73", "#2fc79a", "9 5", "PCIe"},
                                        {LinkClass::shm, "#8a5a7a", "#cc79a7", "2 4", "shared memory"},
                                        {LinkClass::net, "#a06f00", "#e69f00", "12 4 2 4", "network"}}};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) >= 0x20)
      out += c;
  }
  return out;
}

// Both directions of a pair with equal lanes make one stroke.
struct Stroke {
  Node a, b;
  LinkClass link_class;
  int lanes;
  bool one_way;
};

std::vector<Stroke> strokes_of(const Topology& topology) {
  std::map<std::tuple<Node, Node, LinkClass>, int> lanes;
  for (const Link& link : topology.links) lanes[{link.src, link.dst, link.link_class}] += link.lanes;
  std::vector<Stroke> strokes;
  for (const auto& [key, count] : lanes) {
    const auto& [src, dst, link_class] = key;
    const auto back = lanes.find({dst, src, link_class});
    const bool equal = back != lanes.end() && back->second == count;
    if (equal && src > dst) continue;
    strokes.push_back({src, dst, link_class, count, !equal});
  }
  return strokes;
}

// An order of ranks that keeps linked ranks near each other: swaps places while that shortens the chords.
std::vector<Rank> circle_order(const Topology& topology, const std::vector<Stroke>& strokes) {
  constexpr int kMostRanks = 24;  // with more ranks their own order is clearer
  std::vector<Rank> order(static_cast<std::size_t>(topology.ranks));
  std::iota(order.begin(), order.end(), 0);
  if (topology.ranks > kMostRanks) return order;
  std::vector<double> place(order.size());
  const auto length = [&] {
    for (std::size_t at = 0; at < order.size(); ++at)
      place[static_cast<std::size_t>(order[at])] = static_cast<double>(at);
    double sum = 0;
    for (const Stroke& stroke : strokes)
      if (stroke.a < topology.ranks && stroke.b < topology.ranks)
        sum +=
            stroke.lanes *
            std::sin(std::numbers::pi *
                     std::abs(place[static_cast<std::size_t>(stroke.a)] - place[static_cast<std::size_t>(stroke.b)]) /
                     topology.ranks);
    return sum;
  };
  double best = length();
  for (bool shorter = true; shorter;) {
    shorter = false;
    for (std::size_t i = 1; i < order.size(); ++i)
      for (std::size_t j = i + 1; j < order.size(); ++j) {
        std::swap(order[i], order[j]);
        if (const double now = length(); now < best - 1e-9) {
          best = now;
          shorter = true;
        } else {
          std::swap(order[i], order[j]);
        }
      }
  }
  return order;
}

std::vector<Point> layout(const Topology& topology, const std::vector<Stroke>& strokes, double radius, Point centre) {
  std::vector<Point> at(static_cast<std::size_t>(topology.nodes()), centre);
  const std::vector<Rank> order = circle_order(topology, strokes);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double angle = 2 * std::numbers::pi * (static_cast<double>(i) + 0.5) / topology.ranks - std::numbers::pi / 2;
    at[static_cast<std::size_t>(order[i])] = {centre.x + radius * std::cos(angle), centre.y + radius * std::sin(angle)};
  }
  // A switch is drawn at the mean of its neighbours, moved towards the centre. A few rounds settle switches of
  // switches.
  for (int round = 0; round < 30; ++round)
    for (Node node = topology.ranks; node < topology.nodes(); ++node) {
      Point sum;
      int neighbours = 0;
      for (const Stroke& stroke : strokes) {
        if (stroke.a != node && stroke.b != node) continue;
        const Point& other = at[static_cast<std::size_t>(stroke.a == node ? stroke.b : stroke.a)];
        sum.x += other.x, sum.y += other.y;
        ++neighbours;
      }
      if (neighbours == 0) continue;
      at[static_cast<std::size_t>(node)] = {centre.x + 0.8 * (sum.x / neighbours - centre.x),
                                            centre.y + 0.8 * (sum.y / neighbours - centre.y)};
    }
  // Switches at the same place are moved side by side.
  for (Node node = topology.ranks; node < topology.nodes(); ++node)
    for (Node earlier = topology.ranks; earlier < node; ++earlier) {
      const Point& other = at[static_cast<std::size_t>(earlier)];
      Point& own = at[static_cast<std::size_t>(node)];
      if (std::hypot(own.x - other.x, own.y - other.y) < 60) own = {other.x + 76, other.y + 10};
    }
  return at;
}

std::string style_sheet() {
  std::string css =
      "svg{font-family:system-ui,'DejaVu Sans',sans-serif}"
      ".bg{fill:#ffffff}.text{fill:#1a1a1a}.soft{fill:#555555}.rank{fill:#ffffff;stroke:#1a1a1a;stroke-width:2}"
      ".switch{fill:#e8e8e8;stroke:#1a1a1a;stroke-width:1.5}.halo{stroke:#ffffff;fill:#ffffff}.line{fill:none;stroke-"
      "width:2.4}";
  std::string dark =
      ".bg{fill:#15191e}.text{fill:#ececec}.soft{fill:#a8b0b8}.rank{fill:#15191e;stroke:#ececec}"
      ".switch{fill:#2c333b;stroke:#ececec}.halo{stroke:#15191e;fill:#15191e}";
  for (const Style& style : kStyles) {
    css += fmt::format(".{0}{{stroke:{1};stroke-dasharray:{2}}}.{0}-end{{fill:{1}}}", name(style.link_class),
                       style.light, style.dashes);
    dark += fmt::format(".{0}{{stroke:{1}}}.{0}-end{{fill:{1}}}", name(style.link_class), style.dark);
  }
  return css + "@media (prefers-color-scheme: dark){" + dark + "}";
}

std::string drawn(const Stroke& stroke, Point a, Point b, bool with_number) {
  const double length = std::max(1.0, std::hypot(b.x - a.x, b.y - a.y));
  const Point along{(b.x - a.x) / length, (b.y - a.y) / length};
  const int lines = stroke.lanes <= kMostLines ? stroke.lanes : 1;
  const double width = stroke.lanes <= kMostLines ? 2.4 : 5;
  std::string out;
  for (int line = 0; line < lines; ++line) {
    const double aside = (line - (lines - 1) / 2.0) * kLaneGap;
    out += fmt::format(
        "<line class=\"line {}\" style=\"stroke-width:{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n",
        name(stroke.link_class), width, a.x - along.y * aside, a.y + along.x * aside, b.x - along.y * aside,
        b.y + along.x * aside);
  }
  if (stroke.one_way) {
    const Point tip{b.x - along.x * (kRankRadius + 4), b.y - along.y * (kRankRadius + 4)};
    out += fmt::format("<path class=\"{}-end\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}Z\"/>\n",
                       name(stroke.link_class), tip.x, tip.y, tip.x - along.x * 12 - along.y * 6,
                       tip.y - along.y * 12 + along.x * 6, tip.x - along.x * 12 + along.y * 6,
                       tip.y - along.y * 12 - along.x * 6);
  }
  if (with_number && stroke.lanes > kMostLines) {
    const Point middle{a.x + 0.42 * (b.x - a.x), a.y + 0.42 * (b.y - a.y)};
    out += fmt::format(
        "<circle class=\"halo\" cx=\"{0:.1f}\" cy=\"{1:.1f}\" r=\"11\"/><text class=\"text\" x=\"{0:.1f}\" "
        "y=\"{2:.1f}\" "
        "font-size=\"13\" text-anchor=\"middle\">{3}</text>\n",
        middle.x, middle.y, middle.y + 4.5, stroke.lanes);
  }
  return out;
}

std::string switch_label(const Topology& topology, Node node) {
  int same_before = 0, same = 0;
  for (Node other = topology.ranks; other < topology.nodes(); ++other) {
    if (topology.switch_kind(other) != topology.switch_kind(node)) continue;
    ++same;
    same_before += other < node;
  }
  constexpr std::array<std::string_view, 6> kLabels{"switch", "NVSwitch", "PCI switch", "CPU", "NIC", "fabric"};
  const std::string_view label = kLabels[static_cast<std::size_t>(topology.switch_kind(node))];
  return same == 1 ? std::string(label) : fmt::format("{} {}", label, same_before);
}

std::string node_picture(const Topology& topology, Node node, Point at) {
  if (node >= topology.ranks) {
    const std::string label = switch_label(topology, node);
    const double half = 12 + 4.2 * static_cast<double>(label.size());
    return fmt::format(
        "<g class=\"node\"><rect class=\"switch\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"32\" rx=\"5\"/>"
        "<text class=\"text\" x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"14\" text-anchor=\"middle\">{}</text></g>\n",
        at.x - half, at.y - 16, 2 * half, at.x, at.y + 5, label);
  }
  std::string out = fmt::format(
      "<g class=\"node\"><circle class=\"rank\" cx=\"{0:.1f}\" cy=\"{1:.1f}\" r=\"{2}\"/>"
      "<text class=\"text\" x=\"{0:.1f}\" y=\"{3:.1f}\" font-size=\"17\" text-anchor=\"middle\">{4}</text>",
      at.x, at.y, kRankRadius, at.y + (topology.devices.empty() ? 6 : 2), node);
  if (!topology.devices.empty())
    out += fmt::format(
        "<text class=\"soft\" x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"10\" text-anchor=\"middle\">dev {}</text>", at.x,
        at.y + 14, topology.devices[static_cast<std::size_t>(node)]);
  return out + "</g>\n";
}

std::string legend(const Topology& topology, double left, double top) {
  std::string out;
  double y = top;
  for (const std::string& line : describe_links(topology)) {
    const std::string_view class_name = std::string_view(line).substr(0, line.find(':'));
    const auto style = std::find_if(kStyles.begin(), kStyles.end(),
                                    [&](const Style& one) { return name(one.link_class) == class_name; });
    out += fmt::format(
        "<line class=\"line {}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>"
        "<text class=\"text\" x=\"{}\" y=\"{}\" font-size=\"14\">{}{}</text>\n",
        class_name, left, y, left + 44, y, left + 56, y + 5, style->name,
        escaped(std::string_view(line).substr(line.find(':'))));
    y += kLegendLine;
  }
  return out +
         fmt::format(
             "<text class=\"soft\" x=\"{}\" y=\"{}\" font-size=\"13\">{}</text>\n", left, y + 5,
             "A line is a lane in both directions; a thick line carries its number of lanes; an arrow, one direction.");
}

}  // namespace

std::string topo_svg(const Topology& topology) {
  const std::vector<Stroke> strokes = strokes_of(topology);
  const double radius = std::clamp(topology.ranks * 90 / (2 * std::numbers::pi), 170.0, 1600.0);
  const double width = std::max(2 * (radius + kMargin + kRankRadius), 760.0);
  const double legend_lines = static_cast<double>(describe_links(topology).size()) + 1.5;
  const double legend_top = kTitle + 2 * (radius + kRankRadius) + 2 * kMargin;
  const double height = legend_top + legend_lines * kLegendLine + 10;
  const Point centre{width / 2, kTitle + radius + kRankRadius + kMargin / 2};
  const std::vector<Point> at = layout(topology, strokes, radius, centre);

  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "role=\"img\">\n"
      "<title>{2}</title>\n<style>{3}</style>\n<rect class=\"bg\" width=\"{0:.0f}\" height=\"{1:.0f}\"/>\n"
      "<text class=\"text\" x=\"{4}\" y=\"34\" font-size=\"21\" font-weight=\"600\">{2}</text>\n"
      "<text class=\"soft\" x=\"{4}\" y=\"57\" font-size=\"14\">{5}</text>\n",
      width, height, escaped(fmt::format("{}: {} ranks", topology.name, topology.ranks)), style_sheet(), kMargin,
      escaped(describe_bounds(topology)));
  constexpr std::size_t kMostNumbers = 64;  // of strokes; more numbers would hide them
  for (const Stroke& stroke : strokes)
    svg += drawn(stroke, at[static_cast<std::size_t>(stroke.a)], at[static_cast<std::size_t>(stroke.b)],
                 strokes.size() <= kMostNumbers);
  for (Node node = 0; node < topology.nodes(); ++node)
    svg += node_picture(topology, node, at[static_cast<std::size_t>(node)]);
  return svg + legend(topology, kMargin, legend_top) + "</svg>\n";
}

}  // namespace sccl::tools
