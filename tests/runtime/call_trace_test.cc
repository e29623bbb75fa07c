// What a rank writes into a trace, and what becomes of the trace where it cannot be written.
#include "runtime/trace/call_trace.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/settings/log.h"

using namespace sccl;
using namespace sccl::runtime;

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class Folder {
 public:
  Folder() {
    std::string pattern = fs::temp_directory_path() / "sccl-trace-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() { fs::remove_all(path_); }
  std::string file() const { return path_ / "trace.json"; }

 private:
  fs::path path_;
};

std::vector<Json> events_of(const std::string& path) {
  std::vector<Json> events;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with(',')) line.pop_back();
    if (line != "[") events.push_back(Json::parse(line));
  }
  return events;
}

std::vector<Json> of_category(const std::vector<Json>& events, const std::string& category) {
  std::vector<Json> found;
  for (const Json& event : events)
    if (event.value("cat", "") == category) found.push_back(event);
  return found;
}

CallSignature all_reduce(std::uint64_t number) {
  CallSignature call;
  call.sequence = number;
  call.count = 4096;
  call.type = DataType::float32;
  return call;
}

void wait_for_rank_3(CallTrace& trace) {
  trace.note_wait([] { return std::vector<Rank>{3}; });  // begins the wait
  const std::uint64_t begin = trace_clock_ns();
  while (trace_clock_ns() < begin + 2 * CallTrace::kLeastWaitNs) trace.note_wait([] { return std::vector<Rank>{3}; });
  trace.note_motion();
}

}  // namespace

TEST_CASE("a call, its waits and its slices become events that nest") {
  const Folder folder;
  {
    CallTrace trace(std::make_shared<TraceFile>(folder.file()), "tensor \"parallel\"", "c1", 1, 4);
    trace.begin(all_reduce(7), 4711);
    trace.note_choice("ring, simple");
    trace.note_slice(0, 0);
    wait_for_rank_3(trace);
    trace.note_slice(0, 1);
    trace.note_slice(0, 2);
    trace.end();
    trace.begin_transfers();
    trace.end();
  }
  const auto events = events_of(folder.file());
  const auto calls = of_category(events, "call");
  REQUIRE(calls.size() == 2);
  CHECK(calls[0]["name"] == "AllReduce");
  CHECK(calls[0]["args"] == Json{{"number", 7},
                                 {"communicator", "c1"},
                                 {"count", 4096},
                                 {"type", "float"},
                                 {"op", "sum"},
                                 {"tag", 4711},
                                 {"schedule", "ring, simple"},
                                 {"outcome", "done"}});
  CHECK(calls[1]["name"] == "Send and Recv");
  CHECK(calls[1]["args"]["schedule"] == "");
  const auto waits = of_category(events, "wait");
  REQUIRE(waits.size() == 1);
  CHECK(waits[0]["name"] == "waits for rank 3");
  CHECK(waits[0]["ts"] >= calls[0]["ts"]);
  CHECK(waits[0]["ts"].get<double>() + waits[0]["dur"].get<double>() <=
        calls[0]["ts"].get<double>() + calls[0]["dur"].get<double>() + 0.002);
  CHECK(waits[0]["tid"] == calls[0]["tid"]);
  const auto slices = of_category(events, "slice");
  REQUIRE(slices.size() == 2);
  CHECK(slices[0]["name"] == "slice 0");
  CHECK(slices[1]["name"] == "slice 1");
  CHECK(slices[0]["tid"] != calls[0]["tid"]);
}

TEST_CASE("a call that did not end is told as failed") {
  const Folder folder;
  {
    CallTrace trace(std::make_shared<TraceFile>(folder.file()), "c", "c", 0, 2);
    trace.begin(all_reduce(1));
    wait_for_rank_3(trace);
    trace.note_wait([] { return std::vector<Rank>{3}; });
    trace.begin(all_reduce(2));
  }
  const auto calls = of_category(events_of(folder.file()), "call");
  REQUIRE(calls.size() == 2);
  CHECK(calls[0]["args"]["outcome"] == "failed");
  CHECK(calls[1]["args"]["outcome"] == "failed");
}

TEST_CASE("a full disk ends a trace with one line, and the job goes on") {
  log::set_last_error("");
  const auto file = std::make_shared<TraceFile>("/dev/full");
  CallTrace trace(file, "c", "c", 0, 2);
  file->flush();
  CHECK_THAT(log::last_error(), Catch::Contains("/dev/full cannot be written") && Catch::Contains("the job goes on"));
  log::set_last_error("");
  for (int i = 1; i < 5000; ++i) {
    trace.begin(all_reduce(static_cast<std::uint64_t>(i)));
    trace.end();
  }
  file->flush();
  CHECK(std::string(log::last_error()).empty());
}

TEST_CASE("a forked child leaves its parent's trace alone") {
  const Folder folder;
  auto file = std::make_shared<TraceFile>(folder.file());
  auto trace = std::make_unique<CallTrace>(file, "c", "c", 0, 2);
  trace->begin(all_reduce(1));
  trace->end();
  const pid_t child = ::fork();
  if (child == 0) {
    file.reset();
    trace.reset();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  trace.reset();
  file.reset();
  CHECK(of_category(events_of(folder.file()), "call").size() == 1);
}

TEST_CASE("threads of one process write one trace") {
  const Folder folder;
  {
    const auto file = std::make_shared<TraceFile>(folder.file());
    std::vector<std::thread> threads;
    for (Rank rank = 0; rank < 4; ++rank)
      threads.emplace_back([&file, rank] {
        CallTrace trace(file, "c", "c", rank, 4);
        for (std::uint64_t i = 1; i <= 2000; ++i) {
          trace.begin(all_reduce(i));
          trace.end();
        }
      });
    for (std::thread& thread : threads) thread.join();
  }
  CHECK(of_category(events_of(folder.file()), "call").size() == 8000);
}

TEST_CASE("every process has a trace of its own name") {
  const std::string process = std::to_string(::getpid());
  CHECK(trace_path("/tmp/%h.%p.json").ends_with("." + process + ".json"));
  CHECK(trace_path("/tmp/trace.json").ends_with("-" + process + ".json"));
  CHECK(trace_path("/tmp/trace.json").starts_with("/tmp/trace-"));
  CHECK(trace_path("/a.b/trace").ends_with("-" + process));
  CHECK(trace_path("/a.b/trace").starts_with("/a.b/trace-"));
  CHECK(trace_path("%h").ends_with("-" + process));
}
