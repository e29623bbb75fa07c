#include "tools/pictures/drawing.h"

#include <fmt/format.h>

#include <algorithm>

namespace sccl::tools {
namespace {

constexpr std::string_view kStyle = R"(
text{font:12px sans-serif;fill:#222}
.title{font-size:16px;font-weight:bold}
.small{font-size:10px}
.quiet{fill:#555}
.page{fill:#fff}
.grid{stroke:#ddd;stroke-width:1}
.row{fill:#f3f3f3}
.node{fill:#fff;stroke:#222;stroke-width:1.2}
.link{stroke:#ccc;stroke-width:1}
.cell{fill:none;stroke:#bbb;stroke-width:1}
.copy{fill:none;stroke:#0072b2}
.reduce{fill:none;stroke:#d55e00;stroke-dasharray:5 3}
.copyfill{fill:#0072b2}
.reducefill{fill:#d55e00}
.stripe{stroke:#fff;stroke-width:1.2}
.s0{fill:#28336b}.s1{fill:#2b4f85}.s2{fill:#2d6b92}.s3{fill:#318796}.s4{fill:#43a08c}
.s5{fill:#6ab677}.s6{fill:#9ac65f}.s7{fill:#cdcf4f}.s8{fill:#f2d94b}
@media (prefers-color-scheme:dark){
text{fill:#e8e8e8}
.quiet{fill:#aaa}
.page{fill:#16181c}
.grid{stroke:#3a3d44}
.row{fill:#1f2228}
.node{fill:#16181c;stroke:#e8e8e8}
.link{stroke:#4a4d55}
.cell{stroke:#555}
.copy{stroke:#56b4e9}
.reduce{stroke:#f0833a}
.copyfill{fill:#56b4e9}
.reducefill{fill:#f0833a}
.stripe{stroke:#16181c}
.s0{fill:#4a5cb0}.s1{fill:#4471b0}.s2{fill:#4086ab}
}
)";

std::string escaped(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    switch (letter) {
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '&':
        result += "&amp;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += static_cast<unsigned char>(letter) < 32 ? ' ' : letter;
    }
  }
  return result;
}

std::string closed(std::string_view element, std::string_view hint) {
  if (hint.empty()) return "/>\n";
  return fmt::format("><title>{}</title></{}>\n", escaped(hint), element);
}

}  // namespace

Drawing::Drawing(double width, double height, std::string_view title) {
  text_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "role=\"img\">\n<title>{2}</title>\n<style>{3}</style>\n"
      "<rect class=\"page\" x=\"0\" y=\"0\" width=\"{0:.0f}\" height=\"{1:.0f}\"/>\n",
      width, height, escaped(title), kStyle);
}

void Drawing::text(double x, double y, std::string_view style, std::string_view content, std::string_view anchor) {
  text_ += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", style, x, y,
                       anchor, escaped(content));
}

void Drawing::box(double x, double y, double width, double height, std::string_view style, std::string_view hint) {
  text_ += fmt::format("<rect class=\"{}\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"{}", style, x, y,
                       width, height, closed("rect", hint));
}

void Drawing::line(double x1, double y1, double x2, double y2, std::string_view style) {
  text_ += fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", style, x1, y1,
                       x2, y2);
}

void Drawing::path(std::string_view data, std::string_view style, double stroke_width, std::string_view hint) {
  text_ += fmt::format("<path class=\"{}\" d=\"{}\" stroke-width=\"{:.1f}\"{}", style, data, stroke_width,
                       closed("path", hint));
}

void Drawing::circle(double x, double y, double radius, std::string_view style) {
  text_ += fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\"/>\n", style, x, y, radius);
}

std::string Drawing::finish() && { return std::move(text_) + "</svg>\n"; }

std::string scale_class(int index, int count) {
  const int last = Drawing::kScale - 1;
  return fmt::format("s{}", count <= 1 ? last / 2 : std::clamp(index * last / (count - 1), 0, last));
}

}  // namespace sccl::tools
