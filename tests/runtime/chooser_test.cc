// Tuning while calls run: results stay right, the same on all ranks, and the same bits where that is asked for.
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "rank_threads.h"
#include "runtime/communicator/communicator.h"
#include "runtime/communicator/group.h"

using namespace sccl;
using namespace sccl::runtime;

namespace {

namespace fs = std::filesystem;

// A cache of its own, and variables that are gone afterwards.
class Surroundings {
 public:
  using Variables = std::map<std::string, std::string>;
  explicit Surroundings(Variables variables) : variables_(std::move(variables)) {
    std::string pattern = fs::temp_directory_path() / "sccl-tuning-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    variables_["SCCL_CACHE_DIR"] = folder_;
    variables_["SCCL_TUNE_TRACE"] = trace();
    for (const auto& [name, value] : variables_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Surroundings() {
    for (const auto& [name, value] : variables_) ::unsetenv(name.c_str());
    fs::remove_all(folder_);
  }
  std::string trace() const { return folder_ / "trace.csv"; }
  int files() const {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(folder_)) count += entry.path().extension() == ".tuning" ? 1 : 0;
    return count;
  }
  // Schedules that were timed.
  std::map<std::string, int> timed() const {
    std::map<std::string, int> found;
    std::ifstream file(trace());
    for (std::string line; std::getline(file, line);) {
      std::stringstream fields(line);
      std::string field;
      for (int i = 0; i < 4; ++i) std::getline(fields, field, ',');
      ++found[field];
    }
    return found;
  }

 private:
  std::map<std::string, std::string> variables_;
  fs::path folder_;
};

void run(int ranks, const std::function<void(const std::shared_ptr<Communicator>&)>& body) {
  const UniqueId id = create_unique_id();
  const auto errors = run_ranks(ranks, [&](Rank rank) {
    const auto communicator = std::make_shared<Communicator>(CommunicatorOptions{id, rank, ranks, 0, -1, "", true});
    submit_init(communicator);
    body(communicator);
  });
  for (const std::string& error : errors) CHECK(error == "");
}

// Values whose sum depends on the order of addition.
std::vector<float> values(std::size_t count, Rank rank) {
  std::vector<float> result(count);
  for (std::size_t i = 0; i < count; ++i)
    result[i] = static_cast<float>(1.0 / static_cast<double>(1 + (i * 7 + static_cast<std::size_t>(rank) * 13) % 97)) *
                (rank % 2 == 0 ? 1e4f : 1.0f);
  return result;
}

// The bits of every call's result, when they differ from the first's: how many.
int other_bits(const std::shared_ptr<Communicator>& communicator, std::size_t count, int calls) {
  const auto send = values(count, communicator->rank());
  std::vector<float> first(count);
  std::vector<float> again(count);
  int different = 0;
  for (int call = 0; call < calls; ++call) {
    std::vector<float>& recv = call == 0 ? first : again;
    submit(communicator, {Collective::allreduce, send.data(), recv.data(), count, DataType::float32, {}, 0, nullptr});
    if (call > 0 && std::memcmp(first.data(), again.data(), count * sizeof(float)) != 0) ++different;
  }
  return different;
}

}  // namespace

TEST_CASE("tuning with SCCL_DETERMINISTIC=1 never changes a bit") {
  const Surroundings surroundings(Surroundings::Variables{{"SCCL_TUNE", "online"}, {"SCCL_DETERMINISTIC", "1"}});
  run(3, [](const std::shared_ptr<Communicator>& communicator) {
    for (const std::size_t count : {256u, 20000u})
      if (other_bits(communicator, count, 500) != 0) throw std::runtime_error("another order of summation");
  });
  CHECK(surroundings.timed().size() >= 2);  // there was something to choose from
}

TEST_CASE("two runs with SCCL_DETERMINISTIC=1 give the same bits, also when the second has what the first measured") {
  constexpr std::size_t kCount = 20000;
  const auto result = [&](int calls) {
    std::vector<float> recv(kCount);
    run(3, [&](const std::shared_ptr<Communicator>& communicator) {
      const auto send = values(kCount, communicator->rank());
      std::vector<float> mine(kCount);
      for (int call = 0; call < calls; ++call)
        submit(communicator,
               {Collective::allreduce, send.data(), mine.data(), kCount, DataType::float32, {}, 0, nullptr});
      if (communicator->rank() == 0) recv = mine;
    });
    return recv;
  };
  const Surroundings surroundings(Surroundings::Variables{{"SCCL_TUNE", "online"}, {"SCCL_DETERMINISTIC", "1"}});
  const auto untuned = result(1);
  const auto first = result(500);
  CHECK(surroundings.files() == 1);
  const auto second = result(500);
  ::setenv("SCCL_TUNE", "load", 1);
  const auto loaded = result(1);
  for (const auto* other : {&first, &second, &loaded})
    CHECK(std::memcmp(untuned.data(), other->data(), kCount * sizeof(float)) == 0);
}

TEST_CASE("a rank alone has nothing to tune, and its calls are right") {
  const Surroundings surroundings(Surroundings::Variables{{"SCCL_TUNE", "online"}});
  run(1, [](const std::shared_ptr<Communicator>& communicator) {
    for (const std::size_t count : {2u, 5000u, 1u << 20})
      for (int call = 0; call < 50; ++call) {
        const auto send = values(count, 0);
        std::vector<float> recv(count);
        submit(communicator,
               {Collective::allreduce, send.data(), recv.data(), count, DataType::float32, {}, 0, nullptr});
        if (recv != send) throw std::runtime_error("wrong data");
      }
  });
  CHECK(surroundings.timed().empty());
}

TEST_CASE("where the user allows it, other orders of summation race, and all ranks get equal results") {
  const Surroundings surroundings(Surroundings::Variables{{"SCCL_TUNE", "online"}});
  constexpr std::size_t kCount = 5000;
  std::vector<std::vector<float>> last(3);
  std::atomic<int> other_bits{0};
  run(3, [&](const std::shared_ptr<Communicator>& communicator) {
    const auto send = values(kCount, communicator->rank());
    std::vector<float>& recv = last[static_cast<std::size_t>(communicator->rank())];
    recv.resize(kCount);
    std::vector<float> first;
    for (int call = 0; call < 700; ++call) {
      submit(communicator,
             {Collective::allreduce, send.data(), recv.data(), kCount, DataType::float32, {}, 0, nullptr});
      if (call == 0) first = recv;
      other_bits += std::memcmp(first.data(), recv.data(), kCount * sizeof(float)) != 0 ? 1 : 0;
    }
  });
  CHECK(other_bits > 0);  // these values do tell orders apart: the tests above could fail
  CHECK(surroundings.timed().count("ring (simple)") == 1);
  CHECK(std::memcmp(last[0].data(), last[1].data(), kCount * sizeof(float)) == 0);
  CHECK(std::memcmp(last[0].data(), last[2].data(), kCount * sizeof(float)) == 0);
  CHECK(surroundings.files() == 1);
}

TEST_CASE("calls of several kinds race at the same time, rooted ones included") {
  const Surroundings surroundings(Surroundings::Variables{{"SCCL_TUNE", "online"}});
  run(4, [](const std::shared_ptr<Communicator>& communicator) {
    std::vector<std::int32_t> send(40000, communicator->rank() + 1);
    std::vector<std::int32_t> recv(40000 * 4, 0);
    for (int call = 0; call < 300; ++call) {
      const Rank root = call % 4;
      submit(communicator,
             {Collective::broadcast, send.data(), recv.data(), 40000, DataType::int32, {}, root, nullptr});
      if (recv[39999] != root + 1) throw std::runtime_error("Broadcast gave something else");
      submit(communicator, {Collective::allgather, send.data(), recv.data(), 100, DataType::int32, {}, 0, nullptr});
      if (recv[399] != 4 || recv[0] != 1) throw std::runtime_error("AllGather gave something else");
      submit(communicator, {Collective::reduce, send.data(), recv.data(), 3000, DataType::int32, {}, root, nullptr});
      if (communicator->rank() == root && recv[2999] != 10) throw std::runtime_error("Reduce gave something else");
    }
  });
  CHECK(surroundings.timed().size() >= 3);
}

TEST_CASE("rooted calls alone race too slowly to be trusted: nothing is timed that cannot be exchanged") {
  const Surroundings surroundings(Surroundings::Variables{{"SCCL_TUNE", "online"}});
  run(2, [](const std::shared_ptr<Communicator>& communicator) {
    std::vector<float> data(30000, 1.0f);
    for (int call = 0; call < 400; ++call)
      submit(communicator,
             {Collective::broadcast, data.data(), data.data(), data.size(), DataType::float32, {}, 0, nullptr});
  });
  CHECK(surroundings.timed().empty());
}

TEST_CASE("nothing is timed unless tuning is online") {
  for (const char* mode : {"off", "load", "sideways"}) {
    const Surroundings surroundings(Surroundings::Variables{{"SCCL_TUNE", mode}});
    run(2, [](const std::shared_ptr<Communicator>& communicator) { other_bits(communicator, 1000, 100); });
    CHECK(surroundings.timed().empty());
    CHECK(surroundings.files() == 0);
  }
}
