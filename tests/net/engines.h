// The engines that the tests run on: plugins of every version, and UCX.
#pragma once

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/error.h"
#include "net/plugin/engine.h"
#include "net/rails/rails.h"
#include "net/ucx/engine.h"

namespace net_test {

using namespace sccl;
using namespace sccl::net;

inline std::string plugin_path(int version) { return fmt::format("{}/libnccl-net-tcp{}.so", PLUGIN_FOLDER, version); }

// For threads, which must not use the checks of the test framework: what goes wrong is thrown.
inline std::unique_ptr<Net> open_plugin(int version) {
  std::string why;
  const auto loaded = plugin::load(plugin_path(version), why);
  if (!loaded) throw std::runtime_error(why);
  return plugin::open(loaded, 17);
}

inline void check_in_time(const Deadline& limit) {
  if (limit.passed()) throw std::runtime_error("the engine does not come to an end");
}

struct NamedEngine {
  std::string name;
  std::function<std::unique_ptr<Net>()> open;
};

inline std::vector<NamedEngine> every_engine() {
  std::vector<NamedEngine> engines;
  for (int version = abi::kOldestVersion; version <= abi::kNewestVersion; ++version)
    engines.push_back({fmt::format("plugin v{}", version), [version] { return open_plugin(version); }});
  engines.push_back({"UCX", [] { return ucx::open({.nonce = 99, .devices = "lo"}); }});
  engines.push_back(
      {"two rails of UCX", [] {
         std::vector<Rail> rails;
         for (std::uint64_t at = 0; at < 2; ++at)
           rails.push_back({ucx::open({.nonce = 99, .devices = "lo"}), 0, fmt::format("lo{}", at), at, 0});
         return over_rails(std::move(rails), {});
       }});
  engines.push_back({"two rails of a plugin", [] {
                       const std::shared_ptr<Net> plugin = open_plugin(11);
                       return over_rails({{plugin, 0, "tcp0", 0, 1000}, {plugin, 0, "tcp0", 0, 2000}}, {});
                     }});
  return engines;
}

struct Pair {
  std::unique_ptr<Sender> sender;
  std::unique_ptr<Receiver> receiver;
};

// From `from` to `to`; both are driven by this thread.
inline Pair connected(Net& from, Net& to) {
  const auto listener = to.listen(0);
  const auto connector = from.connect(0, listener->handle());
  const auto limit = Deadline::in(std::chrono::seconds(20));
  Pair pair;
  while (!pair.sender || !pair.receiver) {
    if (!pair.sender) pair.sender = connector->poll();
    if (!pair.receiver) pair.receiver = listener->accept();
    from.progress();
    to.progress();
    check_in_time(limit);
  }
  return pair;
}

// A message under way at one end. Engines without threads move data only while requests are tested, at both ends.
struct Way {
  Connection& end;
  Request request;
  std::optional<std::size_t> bytes{};
};

// Returns when all are complete; throws what test() throws.
inline void finish(std::span<Way> ways, Net& a, Net& b) {
  const auto limit = Deadline::in(std::chrono::seconds(20));
  for (bool done = false; !done;) {
    done = true;
    for (Way& way : ways) {
      if (!way.bytes) way.bytes = way.end.test(way.request);
      done = done && way.bytes.has_value();
    }
    a.progress();
    b.progress();
    check_in_time(limit);
  }
}

inline std::size_t finished(Connection& end, Request request, Net& a, Net& b) {
  Way way{end, request};
  finish({&way, 1}, a, b);
  return *way.bytes;
}

class FaultyPlugin {
 public:
  explicit FaultyPlugin(const std::string& fault) { setenv("SCCL_TEST_NET_FAULT", fault.c_str(), 1); }
  ~FaultyPlugin() { unsetenv("SCCL_TEST_NET_FAULT"); }
};

}  // namespace net_test
