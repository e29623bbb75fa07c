#include "topology/formats/nccl_xml.h"

#include <algorithm>
#include <pugixml.hpp>

#include "base/error.h"
#include "base/settings/printable.h"

namespace sccl::topology {
namespace {

// Far above any machine: NCCL itself stops at some thousand elements.
constexpr std::size_t kMostBytes = 32u << 20;
constexpr int kMostElements = 200'000;
constexpr int kDeepest = 64;
constexpr std::size_t kMostAttributes = 64;
constexpr std::size_t kLongestValue = 254;  // of NCCL's parser

struct Position {
  long line, column;
};

Position position(std::string_view text, std::ptrdiff_t offset) {
  const std::string_view before = text.substr(0, static_cast<std::size_t>(std::max<std::ptrdiff_t>(offset, 0)));
  const std::size_t line_start = before.rfind('\n');
  return {1 + std::count(before.begin(), before.end(), '\n'),
          static_cast<long>(before.size() - (line_start == std::string_view::npos ? 0 : line_start + 1)) + 1};
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Element element(const pugi::xml_node& node, int depth) {
    if (depth > kDeepest || ++elements_ > kMostElements) {
      const Position at = position(text_, node.offset_debug());
      fail(ErrorCode::invalid_argument,
           "topology XML, line {}: more than {} elements, or more than {} inside each other: this is no machine",
           at.line, kMostElements, kDeepest);
    }
    Element result;
    result.tag = node.name();
    for (const pugi::xml_attribute& attribute : node.attributes()) {
      if (result.attributes.size() == kMostAttributes)
        fail(ErrorCode::invalid_argument, "topology XML, line {}: <{}> has more than {} attributes: this is no machine",
             position(text_, node.offset_debug()).line, result.tag, kMostAttributes);
      result.set(attribute.name(), printable(attribute.value()));
    }
    for (const pugi::xml_node& child : node.children())
      if (child.type() == pugi::node_element) result.children.push_back(element(child, depth + 1));
    return result;
  }

 private:
  std::string_view text_;
  int elements_ = 0;
};

void write(const Element& element, std::size_t depth, std::string& out) {
  out.append(2 * depth, ' ');
  out += '<';
  out += element.tag;
  for (const auto& [name, value] : element.attributes) {
    std::string text = value.substr(0, kLongestValue);
    const char quote = text.find('"') == std::string::npos ? '"' : '\'';
    if (quote == '\'') std::erase(text, '\'');
    std::replace(text.begin(), text.end(), '\n', ' ');
    out += fmt::format(" {}={}{}{}", name, quote, text, quote);
  }
  if (element.children.empty()) {
    out += "/>\n";
    return;
  }
  out += ">\n";
  for (const Element& child : element.children) write(child, depth + 1, out);
  out.append(2 * depth, ' ');
  out += fmt::format("</{}>\n", element.tag);
}

}  // namespace

Element system_from_xml(std::string_view text) {
  if (text.size() > kMostBytes)
    fail(ErrorCode::invalid_argument, "topology XML: {} bytes, more than {}: this is no machine", text.size(),
         kMostBytes);
  pugi::xml_document document;
  const pugi::xml_parse_result parsed =
      document.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!parsed) {
    const Position at = position(text, parsed.offset);
    fail(ErrorCode::invalid_argument, "topology XML, line {}, column {}: {}: correct the file", at.line, at.column,
         parsed.description());
  }
  const pugi::xml_node root = document.child("system");
  if (!root) {
    if (document.child("graphs"))
      fail(ErrorCode::invalid_argument,
           "topology XML: this is a file of search results (<graphs>), not of a machine: give the one of "
           "NCCL_TOPO_DUMP_FILE");
    fail(ErrorCode::invalid_argument, "topology XML: there is no <system> element: is this a topology file of NCCL?");
  }
  const pugi::xml_attribute version = root.attribute("version");
  if (version && std::string_view(version.value()) != "1")
    fail(ErrorCode::invalid_argument, "topology XML: version '{}' of <system> is not known: write version 1",
         version.value());
  return Reader(text).element(root, 0);
}

std::string system_to_xml(const Element& system) {
  std::string out;
  write(system, 0, out);
  return out;
}

}  // namespace sccl::topology
