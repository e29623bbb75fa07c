#include "runtime/call/signature.h"

#include <fmt/format.h>

namespace sccl::runtime {
std::uint64_t CallSignature::call_hash() const {
  std::uint64_t state = mix(count + 0x9e3779b97f4a7c15ull);
  state = mix(state ^ (static_cast<std::uint64_t>(collective) << 48 | static_cast<std::uint64_t>(type) << 40 |
                       static_cast<std::uint64_t>(op) << 32 | static_cast<std::uint32_t>(root)));
  return mix(state ^ extras());
}

std::string CallSignature::text() const {
  const CollectiveInfo& about = info(collective);
  std::string text = fmt::format("{}(count={}, {}", about.call_name, count, info(type).name);
  if (about.reduces) text += fmt::format(", {}", name(op));
  if (about.rooted) text += fmt::format(", root={}", root);
  text += ")";
  if (input_window != 0) text += fmt::format(" from window {} to window {}", input_window, output_window);
  if (options != 0) text += fmt::format(" with options {:08x}", options);
  return text;
}

std::uint32_t transfer_hash(std::uint64_t bytes) {
  return static_cast<std::uint32_t>(mix(bytes ^ 0x7032702d73656e64ull));
}

std::string mismatch_text(const std::string& mine, const CallSignature& my_call, const std::string& theirs,
                          const CallSignature& their_call) {
  CallSignature same_windows = their_call;
  same_windows.input_window = my_call.input_window;
  same_windows.output_window = my_call.output_window;
  CallSignature same_options = their_call;
  same_options.options = my_call.options;
  const char* const remedy =
      same_options == my_call   ? "give the call the same configuration (ncclCollConfig_t) on all ranks"
      : same_windows == my_call ? "buffers in windows with NCCL_WIN_COLL_SYMMETRIC must lie in the same windows on all "
                                  "ranks: give every rank's buffers their place there, or none's"
                                : "make the ranks' calls equal, in the same order";
  return fmt::format("{} called {} while {} called {} as call {} of this communicator: {}", mine, my_call.text(),
                     theirs, their_call.text(), my_call.sequence, remedy);
}

}  // namespace sccl::runtime
