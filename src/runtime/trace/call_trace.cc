#include "runtime/trace/call_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace sccl::runtime {
namespace {

std::string title_of(const std::string& communicator, Rank rank, int ranks) {
  return fmt::format("rank {} of {}, {}", rank, ranks, communicator);
}

}  // namespace

std::unique_ptr<CallTrace> CallTrace::of_rank(const std::string& communicator, const std::string& identity, Rank rank,
                                              int ranks) {
  auto file = TraceFile::of_process();
  if (!file) return nullptr;
  return std::make_unique<CallTrace>(std::move(file), communicator, identity, rank, ranks);
}

CallTrace::CallTrace(std::shared_ptr<TraceFile> file, const std::string& communicator, std::string identity, Rank rank,
                     int ranks)
    : file_(std::move(file)),
      identity_(std::move(identity)),
      title_(title_of(communicator, rank, ranks)),
      track_(file_->add_track(title_)) {}

CallTrace::~CallTrace() {
  if (!file_->is_of_this_process()) return;
  end_as("failed");
  file_->flush();
}

void CallTrace::begin(const CallSignature& call, std::uint64_t tag) {
  const CollectiveInfo& about = info(call.collective);
  std::string args = fmt::format(R"("number":{},"communicator":{},"count":{},"type":{})", call.sequence,
                                 trace::quoted(identity_), call.count, trace::quoted(info(call.type).name));
  if (about.reduces) args += fmt::format(R"(,"op":{})", trace::quoted(sccl::name(call.op)));
  if (about.rooted) args += fmt::format(R"(,"root":{})", call.root);
  if (tag != 0) args += fmt::format(R"(,"tag":{})", tag);
  begin_at(std::string(about.call_name), std::move(args));
}

void CallTrace::begin_transfers() {
  choice_.clear();
  begin_at("Send and Recv", fmt::format(R"("communicator":{})", trace::quoted(identity_)));
}

void CallTrace::begin_at(std::string name, std::string args) {
  end_as("failed");
  name_ = std::move(name);
  args_ = std::move(args);
  begin_ns_ = trace_clock_ns();
}

void CallTrace::note_motion() {
  if (wait_begin_ns_ == 0) return;
  const std::uint64_t begin_ns = std::exchange(wait_begin_ns_, 0);
  const std::uint64_t now_ns = trace_clock_ns();
  if (now_ns - begin_ns < kLeastWaitNs) return;
  const std::string ranks = fmt::format("{}", fmt::join(awaited_, ","));
  file_->add_slice(track_, fmt::format("waits for {} {}", awaited_.size() == 1 ? "rank" : "ranks", ranks), "wait",
                   begin_ns, now_ns, fmt::format(R"({{"ranks":[{}]}})", ranks));
}

void CallTrace::note_slice(std::size_t lane, std::uint64_t slice) {
  while (lanes_.size() <= lane)
    lanes_.push_back({file_->add_track(fmt::format("{}, lane {}", title_, lanes_.size())), 0, 0});
  LaneTrack& of = lanes_[lane];
  if (of.begin_ns == 0) of.begin_ns = begin_ns_;
  if (of.slice == slice) return;
  const std::uint64_t now_ns = trace_clock_ns();
  end_slice(of, now_ns);
  of.slice = slice;
  of.begin_ns = now_ns;
}

void CallTrace::end_slice(LaneTrack& lane, std::uint64_t now_ns) {
  file_->add_slice(lane.track, fmt::format("slice {}", lane.slice), "slice", lane.begin_ns, now_ns);
}

void CallTrace::end_as(const char* outcome) {
  if (name_.empty()) return;
  note_motion();
  for (LaneTrack& lane : lanes_) lane = {lane.track, 0, 0};
  file_->add_slice(track_, name_, "call", begin_ns_, trace_clock_ns(),
                   fmt::format(R"({{{},"schedule":{},"outcome":"{}"}})", args_, trace::quoted(choice_), outcome));
  name_.clear();
}

}  // namespace sccl::runtime
