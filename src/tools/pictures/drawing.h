// A self-contained SVG that is legible in light and dark mode, and for colour-blind readers.
//
// Shapes name a class; the colours of the classes are defined here, once for light and once for dark. Kinds differ in
// hue (Okabe and Ito's blue and vermilion) and also in dashes or stripes. An order is shown by a scale of rising
// lightness.
#pragma once

#include <string>
#include <string_view>

namespace sccl::tools {

class Drawing {
 public:
  static constexpr int kScale = 9;  // classes s0 .. s8, from early to late

  Drawing(double width, double height, std::string_view title);

  // `anchor`: start, middle or end.
  void text(double x, double y, std::string_view style, std::string_view content, std::string_view anchor = "start");
  // `hint` appears when the reader points at the shape.
  void box(double x, double y, double width, double height, std::string_view style, std::string_view hint = "");
  void line(double x1, double y1, double x2, double y2, std::string_view style);
  void path(std::string_view data, std::string_view style, double stroke_width, std::string_view hint = "");
  void circle(double x, double y, double radius, std::string_view style);

  std::string finish() &&;

 private:
  std::string text_;
};

// The class at `index` of `count` on the scale.
std::string scale_class(int index, int count);

}  // namespace sccl::tools
