#include "runtime/host/choosing/shared_ranking.h"

#include <string>

#include "base/bytes.h"
#include "base/error.h"

namespace sccl::runtime {
namespace {

using Content = SharedResults::Content;

void append(Content& to, const std::string& text) {
  const std::uint64_t length = text.size();
  append_values(to, &length, 1);
  append_values(to, text.data(), text.size());
}

Content packed(const std::vector<Ranked>& ranking) {
  Content content;
  for (const Ranked& one : ranking) {
    append(content, one.choice.planner);
    append_values(content, &one.choice.form, 1);
    append_values(content, &one.choice.protocol, 1);
    append_values(content, &one.choice.slice_bytes, 1);
    append_values(content, &one.predicted_us, 1);
    append(content, one.why);
  }
  return content;
}

template <typename T>
void take(std::span<const std::byte>& from, T& value) {
  if (!take_value(from, value))
    fail(ErrorCode::internal_error, "a ranking that another rank made ends too early: use one library version");
}

void take(std::span<const std::byte>& from, std::string& text) {
  std::uint64_t length = 0;
  std::span<const std::byte> bytes;
  take(from, length);
  if (!take_bytes(from, length, bytes))
    fail(ErrorCode::internal_error, "a ranking that another rank made ends too early: use one library version");
  text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::vector<Ranked> unpacked(std::span<const std::byte> content) {
  std::vector<Ranked> ranking;
  while (!content.empty()) {
    Ranked one;
    take(content, one.choice.planner);
    take(content, one.choice.form);
    take(content, one.choice.protocol);
    take(content, one.choice.slice_bytes);
    take(content, one.predicted_us);
    take(content, one.why);
    ranking.push_back(std::move(one));
  }
  return ranking;
}

}  // namespace

std::vector<Ranked> shared_ranking(SharedResults& results, const Question& question, const Settings& settings,
                                   int updates, const std::function<std::vector<Ranked>()>& make) {
  // Of the settings, these alone are used by rank_on_links.
  const std::string name = fmt::format("ranking of {}, root {}, {}, by '{}', protocol {}, chunks of {}, update {}",
                                       info(question.collective).name, question.root, question.size.text(),
                                       settings.algorithm(question.collective), static_cast<int>(settings.protocol),
                                       settings.chunk_bytes, updates);
  std::vector<Ranked> ranking;
  results.find(
      name, [&](std::span<const Rank>) { return packed(make()); },
      [&](std::span<const std::byte> content) { ranking = unpacked(content); });
  return ranking;
}

}  // namespace sccl::runtime
