// What is printed, where, and how variables are read.
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/settings/env.h"
#include "base/settings/log.h"
#include "base/settings/nearest_word.h"
#include "base/types.h"

using namespace sccl;

namespace {

// Sets variables for one scope and makes the log read them.
class Settings {
 public:
  explicit Settings(std::vector<std::pair<const char*, std::string>> values) : values_(std::move(values)) {
    for (const auto& [name, value] : values_) ::setenv(name, value.c_str(), 1);
    log::reset();
  }
  ~Settings() {
    for (const auto& entry : values_) ::unsetenv(entry.first);
    log::reset();
  }

 private:
  std::vector<std::pair<const char*, std::string>> values_;
};

std::string content(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("INFO lines go to the file, by subsystem") {
  const std::string pattern = "/tmp/sccl-log-test.%p";
  const std::string path = "/tmp/sccl-log-test." + std::to_string(::getpid());
  {
    const Settings settings(
        {{"NCCL_DEBUG", "info"}, {"NCCL_DEBUG_SUBSYS", "TUNING,init"}, {"NCCL_DEBUG_FILE", pattern}});
    log::info(log::Subsystem::tuning, "chosen {}", 42);
    log::info(log::Subsystem::net, "not for this subsystem");
    log::trace(log::Subsystem::tuning, "not at this level");
    log::warn("careful");
  }
  const std::string text = content(path);
  ::unlink(path.c_str());
  CHECK_THAT(text, Catch::Contains("NCCL INFO chosen 42") && Catch::Contains("NCCL WARN careful"));
  CHECK_THAT(text, !Catch::Contains("not for") && !Catch::Contains("not at"));
  CHECK_THAT(text, Catch::Contains(":" + std::to_string(::getpid()) + ":"));
}

TEST_CASE("levels and subsystems that are not known are named with the nearest one") {
  const std::string path = "/tmp/sccl-log-test-unknown." + std::to_string(::getpid());
  const auto lines_of = [&](const char* level, const char* subsystems) {
    {
      const Settings settings({{"NCCL_DEBUG", level}, {"NCCL_DEBUG_SUBSYS", subsystems}, {"NCCL_DEBUG_FILE", path}});
      log::info(log::Subsystem::init, "hidden or shown");
      log::warn("a warning");
    }
    const std::string text = content(path);
    ::unlink(path.c_str());
    return text;
  };
  const std::string level = lines_of("INFP", "INIT");
  CHECK_THAT(level, Catch::Contains("NCCL WARN NCCL_DEBUG=INFP is not known: the nearest level is INFO"));
  CHECK_THAT(level, !Catch::Contains("hidden or shown") && !Catch::Contains("a warning"));
  const std::string subsystem = lines_of("INFO", "INIT,TUNNIG");
  CHECK_THAT(subsystem, Catch::Contains("TUNNIG is no subsystem: the nearest one is TUNING"));
  CHECK_THAT(subsystem, Catch::Contains("hidden or shown"));
  CHECK_THAT(lines_of("INFO", "INIT,,NVLS,PROXY"), !Catch::Contains("no subsystem"));
}

TEST_CASE("the nearest word takes fewest changes") {
  constexpr std::array<std::string_view, 4> words{"Ring", "Tree", "NVLS", "NVLSTree"};
  CHECK(nearest_word("rnig", words) == "Ring");
  CHECK(nearest_word("tre", words) == "Tree");
  CHECK(nearest_word("nvlstee", words) == "NVLSTree");
  CHECK(nearest_word("", words) == "Ring");
  CHECK(nearest_word(std::string(100000, 'x'), words) == "Ring");
}

TEST_CASE("a list with ^ selects all other subsystems") {
  const Settings settings({{"NCCL_DEBUG", "INFO"}, {"NCCL_DEBUG_SUBSYS", "^TUNING"}});
  CHECK_FALSE(log::enabled(log::Level::info, log::Subsystem::tuning));
  CHECK(log::enabled(log::Level::info, log::Subsystem::net));
}

TEST_CASE("nothing is printed unless asked for, but the last error is kept") {
  log::reset();
  CHECK_FALSE(log::enabled(log::Level::info, log::Subsystem::init));
  log::warn("story {}", 7);
  CHECK(std::string(log::last_error()) == "story 7");
  log::set_last_error(std::string(5000, 'x'));
  CHECK(std::string(log::last_error()).size() == 1023);
}

TEST_CASE("the last error can be read while others write it") {
  std::thread writer([] {
    for (int i = 0; i < 2000; ++i) log::set_last_error("message " + std::to_string(i));
  });
  for (int i = 0; i < 2000; ++i) CHECK(log::last_error() != nullptr);
  writer.join();
  CHECK(std::string(log::last_error()) == "message 1999");
}

TEST_CASE("every variable stands once in the table and in its documentation") {
  std::set<std::string_view> names;
  const std::string page = env::markdown();
  for (const env::Variable& variable : env::table()) {
    CHECK(names.insert(variable.name).second);
    CHECK_THAT(page, Catch::Contains("| `" + std::string(variable.name) + "` |"));
    CHECK_FALSE(variable.meaning.empty());
  }
}

TEST_CASE("numbers are read within their bounds, wrong ones give the default") {
  const auto read = [](const char* value) {
    ::setenv("SCCL_SLOT_BYTES", value, 1);
    const auto number = env::number("SCCL_SLOT_BYTES", 5, 1, 100);
    ::unsetenv("SCCL_SLOT_BYTES");
    return number;
  };
  CHECK(read("7") == 7);
  CHECK(read("0") == 5);
  CHECK(read("101") == 5);
  CHECK(read("seven") == 5);
  CHECK(read("7 ") == 5);
  CHECK(read("") == 5);
  CHECK(env::number("SCCL_SLOT_BYTES", 5, 1, 100) == 5);
}

TEST_CASE("a variable outside the table is a mistake of the library") {
  CHECK_THROWS_AS(env::text("SCCL_NO_SUCH_VARIABLE"), Error);
}

TEST_CASE("names of types, operations and collectives are read back") {
  for (int i = 0; i < kDataTypeCount; ++i)
    CHECK(data_type_from_name(info(static_cast<DataType>(i)).name) == static_cast<DataType>(i));
  for (int i = 0; i < kCollectiveCount; ++i)
    CHECK(collective_from_name(info(static_cast<Collective>(i)).name) == static_cast<Collective>(i));
  CHECK_FALSE(data_type_from_name("float7").has_value());
  CHECK_FALSE(reduce_op_from_name("xor").has_value());
}
