// Settings in files: syntax, precedence, and files that are no files.
#include "base/settings/conf_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/settings/env.h"
#include "base/settings/log.h"

using namespace sccl;

namespace {

// A folder of this test, as HOME; variables that matter are unset. Undone at the end.
class Home {
 public:
  Home() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sccl-conf-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
    if (const char* home = std::getenv("HOME")) before_ = home;
    ::setenv("HOME", folder_.c_str(), 1);
    env::forget_conf_table();
  }
  ~Home() {
    ::setenv("HOME", before_.c_str(), 1);
    ::unsetenv("NCCL_CONF_FILE");
    ::unsetenv("SCCL_SLOT_BYTES");
    std::filesystem::remove_all(folder_);
    env::forget_conf_table();
  }

  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = folder_ / name;
    std::ofstream(path, std::ios::binary) << text;
    env::forget_conf_table();
    return path;
  }
  std::filesystem::path folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  std::string before_;
};

env::ConfTable parsed(const std::string& text) {
  env::ConfTable table;
  env::parse_conf(text, "file", table);
  return table;
}

std::string setting(const env::ConfTable& table, const char* name) {
  const env::ConfSetting* found = table.find(name);
  return found == nullptr ? "(none)" : found->value;
}

}  // namespace

TEST_CASE("a configuration file holds lines NAME=VALUE and comments") {
  const auto table =
      parsed("# comment\n  # another\n\nNCCL_DEBUG=INFO\r\nNCCL_ALGO = ring,tree \nSCCL_ALGO=a=b#c\nNCCL_NET=");
  CHECK(table.complaints.empty());
  CHECK(setting(table, "NCCL_DEBUG") == "INFO");
  CHECK(setting(table, "NCCL_ALGO") == "ring,tree");
  CHECK(setting(table, "SCCL_ALGO") == "a=b#c");
  CHECK(setting(table, "NCCL_NET") == "");
}

TEST_CASE("the first line of a name wins, as the first file does") {
  CHECK(setting(parsed("NCCL_DEBUG=INFO\nNCCL_DEBUG=WARN\n"), "NCCL_DEBUG") == "INFO");
}

TEST_CASE("lines that are no settings are named by their number") {
  const auto table = parsed("NCCL_DEBUG\n=value\nNCCL_NET=" + std::string("a\0b", 3) + "\nNCCL_ALGO=x");
  REQUIRE(table.complaints.size() == 3);
  CHECK_THAT(table.complaints[0], Catch::Contains("file, line 1"));
  CHECK_THAT(table.complaints[2], Catch::Contains("line 3"));
  CHECK(table.settings.size() == 1);
}

TEST_CASE("any bytes are a configuration file") {
  std::string bytes;
  for (int i = 0; i < 70000; ++i) bytes += static_cast<char>(i * 31 % 256);
  CHECK(parsed(bytes).complaints.size() <= 20);
}

TEST_CASE("the environment wins over the chosen file, which replaces the home file") {
  const Home home;
  home.write(".nccl.conf", "SCCL_SLOT_BYTES=8192\nSCCL_SPIN_US=7\n");
  CHECK(env::number("SCCL_SLOT_BYTES", 1, 1, 1 << 20) == 8192);
  CHECK(env::value("SCCL_SLOT_BYTES")->origin == (home.folder() / ".nccl.conf").string());
  const std::string chosen = home.write("other.conf", "SCCL_SLOT_BYTES=16384\n");
  ::setenv("NCCL_CONF_FILE", chosen.c_str(), 1);
  env::forget_conf_table();
  CHECK(env::number("SCCL_SLOT_BYTES", 1, 1, 1 << 20) == 16384);
  CHECK_FALSE(env::text("SCCL_SPIN_US"));
  ::setenv("SCCL_SLOT_BYTES", "4096", 1);
  CHECK(env::number("SCCL_SLOT_BYTES", 1, 1, 1 << 20) == 4096);
  CHECK(env::value("SCCL_SLOT_BYTES")->origin == "environment");
  // Set to nothing, a variable hides what the files say.
  ::setenv("SCCL_SLOT_BYTES", "", 1);
  CHECK_FALSE(env::text("SCCL_SLOT_BYTES"));
}

TEST_CASE("the files of the home and of the system are read in this order") {
  const Home home;
  const auto paths = env::conf_paths();
  REQUIRE(paths.size() == 2);
  CHECK(paths[0] == (home.folder() / ".nccl.conf").string());
  CHECK(paths[1] == "/etc/nccl.conf");
  const std::string first = home.write("first", "NCCL_DEBUG=INFO\n");
  const std::string second = home.write("second", "NCCL_DEBUG=WARN\nNCCL_NET=IB\n");
  const auto table = env::read_conf_files({first, second});
  CHECK(setting(table, "NCCL_DEBUG") == "INFO");
  CHECK(setting(table, "NCCL_NET") == "IB");
}

TEST_CASE("settings of files never appear in the environment") {
  const Home home;
  home.write(".nccl.conf", "SCCL_SLOT_BYTES=8192\n");
  CHECK(env::text("SCCL_SLOT_BYTES") == "8192");
  CHECK(std::getenv("SCCL_SLOT_BYTES") == nullptr);
}

TEST_CASE("what is no readable file of reasonable size is named, not read") {
  const Home home;
  const auto complaint = [](const std::string& path) {
    const auto table = env::read_conf_files({path});
    CHECK(table.settings.empty());
    return table.complaints.empty() ? std::string() : table.complaints.front();
  };
  CHECK(complaint((home.folder() / "missing").string()) == "");
  CHECK(complaint((home.folder() / "missing" / "deeper").string()) == "");
  CHECK_THAT(complaint(home.folder().string()), Catch::Contains("no regular file"));
  const std::string pipe = home.folder() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THAT(complaint(pipe), Catch::Contains("no regular file"));
  CHECK_THAT(complaint("/dev/zero"), Catch::Contains("no regular file"));
  CHECK_THAT(complaint(home.write("large", std::string((1 << 20) + 1, '#'))), Catch::Contains("no regular file"));
  const std::string closed = home.write("closed", "NCCL_DEBUG=INFO\n");
  REQUIRE(::chmod(closed.c_str(), 0) == 0);
  if (::geteuid() != 0) CHECK_THAT(complaint(closed), Catch::Contains("is not read"));
}

TEST_CASE("a file sets the log's level") {
  const Home home;
  home.write(".nccl.conf", "NCCL_DEBUG=INFO\nNCCL_DEBUG_SUBSYS=TUNING\n");
  log::reset();
  CHECK(log::enabled(log::Level::info, log::Subsystem::tuning));
  CHECK_FALSE(log::enabled(log::Level::info, log::Subsystem::init));
  home.write(".nccl.conf", "");
  log::reset();
  CHECK_FALSE(log::enabled(log::Level::info, log::Subsystem::tuning));
}

TEST_CASE("the table's values tell numbers from texts") {
  const auto kind = [](const char* name) { return env::kind(*env::find(name)); };
  for (const char* name :
       {"NCCL_BUFFSIZE", "SCCL_TIMEOUT_MS", "NCCL_IB_DISABLE", "NCCL_NTHREADS", "SCCL_SPIN_US", "NCCL_CROSS_NIC"})
    CHECK(kind(name) == env::Kind::number);
  for (const char* name : {"NCCL_DEBUG", "NCCL_SOCKET_IFNAME", "NCCL_COMM_ID", "SCCL_ALGO", "NCCL_P2P_LEVEL"})
    CHECK(kind(name) == env::Kind::text);
}
