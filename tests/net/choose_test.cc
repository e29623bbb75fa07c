// Which engine is offered, and what is told of those that cannot be used.
#include "net/choose.h"

#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "base/fd.h"
#include "net/engines.h"
#include "net/self_test.h"
#include "skip.h"

using namespace net_test;

namespace {

Settings settings(const std::string& engine, const std::string& plugins) {
  Settings result;
  result.engine = engine;
  result.plugin_list = plugins;
  result.devices = "lo";
  result.self_test_limit_ms = 2000;
  return result;
}

std::string refusal(const Settings& of) {
  try {
    offer(of);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void bring_up(const char* name) {
  const FileDescriptor any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  ::ioctl(any.get(), SIOCSIFFLAGS, &request);
}

// "" if UCX can be opened.
std::string ucx_refusal(std::chrono::milliseconds interruption) {
  try {
    ucx::open({.nonce = 99, .devices = "lo", .reconnect_limit = interruption});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// UCX reads its files once in a process, so a test runs itself again, with a file that has the setting. True: it is the
// one that runs so.
bool is_run_with_file(const char* setting, const char* test) {
  if (std::getenv("SCCL_TEST_CHILD") != nullptr) return true;
  char folder[] = "/tmp/sccl-ucx-XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  const std::string file = std::string(folder) + "/ucx.conf";
  std::ofstream(file) << setting << "\n";
  const std::string again =
      fmt::format("unset UCX_TLS UCX_ZCOPY_THRESH; SCCL_TEST_CHILD=1 UCX_CONFIG_DIR={} '{}' -w NoTests '{}'", folder,
                  std::filesystem::read_symlink("/proc/self/exe").string(), test);
  CHECK(std::system(again.c_str()) == 0);
  ::unlink(file.c_str());
  ::rmdir(folder);
  return false;
}

}  // namespace

TEST_CASE("UCX waits for an interface that an interruption has put down, and tells of one that stays down") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (unshare(CLONE_NEWNET) != 0) _exit(sccl_test::kSkipped);
    const std::string down = ucx_refusal({});
    std::thread later([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      bring_up("lo");
    });
    const std::string interrupted = ucx_refusal(std::chrono::seconds(20));
    later.join();
    const bool right = down.find("lo is down") != std::string::npos && interrupted.empty();
    if (!right) std::cerr << "down: " << down << "\ninterrupted: " << interrupted << std::endl;
    _exit(right ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == sccl_test::kSkipped) return sccl_test::skip("no network namespace: root makes them");
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a plugin that works comes before UCX only when it is found, and alone when it is named") {
  const Offer named = offer(settings("auto", plugin_path(12)));
  REQUIRE(named.engines.size() == 1);
  CHECK(named.engines[0].key == "plugin:TestTCP");
  CHECK(named.engines[0].description == "TestTCP (net plugin v12): tcp0 (10 Gbit/s)");
  const Offer ucx = offer(settings("ucx", ""));
  REQUIRE(ucx.engines.size() == 1);
  CHECK(ucx.engines[0].key == "ucx");
}

TEST_CASE("the first plugin of a list that works is taken") {
  const Offer found = offer(settings("auto", "/nowhere/libfirst.so," + plugin_path(8)));
  REQUIRE(found.engines.size() == 1);
  CHECK(found.engines[0].description == "TestTCP (net plugin v8): tcp0 (10 Gbit/s)");
  CHECK(found.refusals.size() == 1);
}

TEST_CASE("what all ranks have to do is told once, and the usual remedy only where nothing better is known") {
  const Refusal plugin{"libnccl-net.so: no such file", ""}, ucx{"UCX has no port", "widen the range"};
  const std::string three = no_engine_text({{"rank 0", {}, {plugin, ucx}}, {"rank 1", {}, {ucx}}});
  CHECK_THAT(three, Catch::EndsWith("works on all of them (rank 0: libnccl-net.so: no such file; rank 0: UCX has no "
                                    "port; rank 1: UCX has no port): widen the range"));
  CHECK_THAT(no_engine_text({{"rank 0", {}, {plugin}}}),
             Catch::EndsWith("(rank 0: libnccl-net.so: no such file): install UCX (package libucx0), or name a net "
                             "plugin with NCCL_NET_PLUGIN"));
}

TEST_CASE("each rank's remedy is told where no engine works on all of them") {
  const Refusal plugin{"libnccl-net.so: no such file", ""}, ucx{"UCX has no port", "widen the range"};
  SECTION("a rank that has no better remedy than the usual one") {
    const std::string text = no_engine_text({{"rank 0", {}, {plugin}}, {"rank 1", {}, {ucx}}});
    CHECK_THAT(text, Catch::EndsWith(": install UCX (package libucx0), or name a net plugin with NCCL_NET_PLUGIN; "
                                     "widen the range"));
  }
  SECTION("a rank that was told to use a plugin") {
    const std::string text = no_engine_text({{"rank 0", {"plugin:TestTCP"}, {}}, {"rank 1", {}, {plugin, ucx}}});
    CHECK_THAT(text, Catch::Contains("(rank 0 offers plugin:TestTCP; rank 1: libnccl-net.so: no such file; rank 1: "
                                     "UCX has no port): set ") &&
                         Catch::Contains("NCCL_NET_PLUGIN (or ncclConfig_t.netName) alike on all hosts; widen"));
  }
  SECTION("a rank whose UCX works has nothing to do") {
    CHECK_THAT(no_engine_text({{"rank 0", {"ucx"}, {plugin}}, {"rank 1", {}, {plugin, ucx}}}),
               Catch::EndsWith("(rank 0 offers ucx; rank 1: libnccl-net.so: no such file; rank 1: UCX has no port): "
                               "widen the range"));
  }
}

TEST_CASE("what UCX refuses is told apart from its remedy") {
  Settings any_device = settings("ucx", "");
  any_device.devices.clear();
  ::setenv("UCX_NET_DEVICES", "nowhere0", 1);
  try {
    offer(any_device);
    FAIL_CHECK("UCX could be opened");
  } catch (const Error& error) {
    CHECK_THAT(happened(error), Catch::Contains("nowhere0 is not there") && !Catch::Contains("unset"));
    CHECK(remedy(error) == "name one of those, or unset the variable");
  }
  ::unsetenv("UCX_NET_DEVICES");
}

TEST_CASE("a plugin that nobody named and that is not there is no news, and one that somebody named is") {
  CHECK(offer(settings("auto", "")).refusals.at(0).asked == Refusal::Asked::no);
  CHECK(offer(settings("auto", "/nowhere/libfirst.so," + plugin_path(8))).refusals.at(0).asked == Refusal::Asked::yes);
}

TEST_CASE("'none' in the list of plugins leaves UCX") {
  const Offer found = offer(settings("auto", "none"));
  REQUIRE(found.engines.size() == 1);
  CHECK(found.engines[0].key == "ucx");
}

TEST_CASE("a network that is named is looked for among the plugins") {
  Settings by_name = settings("auto", plugin_path(9));
  by_name.network = "testtcp";
  CHECK(offer(by_name).engines.at(0).key == "plugin:TestTCP");
  by_name.network = "OtherNet";
  CHECK(refusal(by_name).find("is the network TestTCP, not OtherNet") != std::string::npos);
}

TEST_CASE("transports that a file of UCX's settings names are UCX's, as those of UCX_TLS are") {
  if (!is_run_with_file("UCX_TLS=self", "transports that a file of UCX*")) return;
  CHECK_THAT(ucx_refusal({}), Catch::Contains("UCX_TLS=self (of a file ucx.conf) has self"));
}

// So UCX 1.13 sends no hello at once, which it does otherwise.
TEST_CASE("ranks connect where a file of UCX's settings has it send short messages from where they lie") {
  if (!is_run_with_file("UCX_ZCOPY_THRESH=1", "ranks connect where a file of UCX*")) return;
  const auto net = ucx::open({.nonce = 99, .devices = "lo"});
  CHECK_NOTHROW(self_test(*net, 0, Deadline::in(std::chrono::seconds(30))));
}

TEST_CASE("NCCL's own transports by name leave the choice as it is") {
  Settings socket = settings("auto", "none");
  socket.network = "Socket";
  const Offer found = offer(socket);
  CHECK(found.engines.at(0).key == "ucx");
  CHECK(found.refusals.back().happened.find("NCCL_NET=Socket") != std::string::npos);
}

TEST_CASE("a plugin that misbehaves is refused with its reason") {
  const std::pair<const char*, const char*> cases[] = {
      {"no-devices", "found no device on this host"},
      {"fail-init", "answered init with 2 (ncclSystemError)"},
      {"hang-connect", "did not connect to itself in time"},
      {"block-connect", "hung inside a call"},
      {"crash-listen", "crashed with signal 6"},
      {"wrong-data", "delivered wrong data in a message of 4096 bytes"},
      {"offload", "only with a protocol inside device kernels"},
      {"fail:7", "(ncclSystemError)"}};
  for (const auto& [fault, text] : cases) {
    INFO(fault);
    const FaultyPlugin faulty(fault);
    const std::string told = refusal(settings("plugin", plugin_path(11)));
    INFO(told);
    CHECK(told.find(text) != std::string::npos);
    // The remedy is told once, at the end.
    CHECK_THAT(told, Catch::EndsWith("so that UCX serves") && !Catch::Contains("SCCL_NET=ucx"));
  }
}

TEST_CASE("settings that nothing can follow are told with what to set") {
  CHECK(refusal(settings("fast", "")).find("set auto, plugin, ucx or none") != std::string::npos);
  CHECK(refusal(settings("none", "")).find("SCCL_NET=none allows no engine") != std::string::npos);
  CHECK(refusal(settings("plugin", "/nowhere/libthere.so")).find("/nowhere/libthere.so") != std::string::npos);
}

TEST_CASE("a plugin that was asked for and is not there is told with who asked and what to set") {
  CHECK_THAT(refusal(settings("plugin", "")),
             Catch::Contains("SCCL_NET=plugin asks for a net plugin that cannot be used") &&
                 Catch::Contains("with NCCL_NET_PLUGIN, or leave out SCCL_NET") && Catch::Contains("libnccl-net.so"));
  CHECK_THAT(refusal(settings("auto", "/nowhere/libnccl-net-x.so")),
             Catch::Contains("NCCL_NET_PLUGIN asks for a net plugin") && Catch::Contains("/nowhere/libnccl-net-x.so"));
  Settings by_name = settings("auto", "");
  by_name.network = "AWS";
  CHECK_THAT(refusal(by_name), Catch::Contains("the name of a network") && Catch::Contains("asks for a net plugin"));
}

TEST_CASE("every engine passes the test of itself") {
  for (const NamedEngine& engine : every_engine()) {
    INFO(engine.name);
    const auto net = engine.open();
    CHECK_NOTHROW(self_test(*net, 0, Deadline::in(std::chrono::seconds(20))));
  }
}
