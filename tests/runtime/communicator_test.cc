// Communicators of threads, below the C API: results, order, failure.
#include "runtime/communicator/communicator.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "base/error.h"
#include "runtime/communicator/group.h"
#include "runtime/communicator/suspension.h"
#include "runtime/host/executor.h"
#include "runtime/membership/membership.h"
#include "runtime/windows/one_sided.h"

using namespace sccl;
using namespace sccl::runtime;

namespace {

using RankBody = std::function<void(const std::shared_ptr<Communicator>&)>;

// Runs `body` at every rank in a thread of its own; returns what each rank threw.
std::vector<std::string> run_ranks(int ranks, const RankBody& body) {
  const UniqueId id = create_unique_id();
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        const auto communicator = std::make_shared<Communicator>(CommunicatorOptions{id, rank, ranks, 0, -1, "", true});
        submit_init(communicator);
        body(communicator);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

void expect_no_errors(const std::vector<std::string>& errors) {
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    INFO("rank " << rank);
    CHECK(errors[rank] == "");
  }
}

void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

CollectiveRequest all_reduce(const float* send, float* recv, std::size_t count) {
  CollectiveRequest request{Collective::allreduce, send, recv, count, DataType::float32, {}, 0, nullptr};
  return request;
}

}  // namespace

TEST_CASE("an AllReduce of any size sums every rank's data") {
  for (const int ranks : {1, 2, 3, 5, 8})
    expect_no_errors(run_ranks(ranks, [&](const std::shared_ptr<Communicator>& communicator) {
      for (const std::size_t count : {1u, 2u, 255u, 3000u, 100000u, 1000003u}) {
        std::vector<float> send(count);
        std::vector<float> recv(count, -1.0f);
        for (std::size_t i = 0; i < count; ++i)
          send[i] = static_cast<float>((i + static_cast<std::size_t>(communicator->rank())) % 7);
        submit(communicator, all_reduce(send.data(), recv.data(), count));
        for (std::size_t i = 0; i < count; ++i) {
          float sum = 0;
          for (int rank = 0; rank < ranks; ++rank) sum += static_cast<float>((i + static_cast<std::size_t>(rank)) % 7);
          if (recv[i] != sum)
            require(false, fmt::format("count {} element {} is {} instead of {}", count, i, recv[i], sum));
        }
      }
    }));
}

TEST_CASE("ranks that disagree on a call are told both calls") {
  const auto errors = run_ranks(2, [&](const std::shared_ptr<Communicator>& communicator) {
    std::vector<float> data(64, 1.0f);
    submit(communicator, all_reduce(data.data(), data.data(), communicator->rank() == 0 ? 64 : 63));
  });
  for (const std::string& error : errors) {
    INFO(error);
    CHECK(error.find("count=64") != std::string::npos);
    CHECK(error.find("count=63") != std::string::npos);
  }
}

TEST_CASE("abort from another thread ends a waiting call") {
  const auto errors = run_ranks(2, [&](const std::shared_ptr<Communicator>& communicator) {
    std::vector<float> data(4, 1.0f);
    if (communicator->rank() == 1) return;
    std::thread aborter([&] { communicator->abort(); });
    try {
      submit(communicator, all_reduce(data.data(), data.data(), data.size()));
    } catch (...) {
      aborter.join();
      throw;
    }
    aborter.join();
  });
  CHECK(errors[0] != "");
}

TEST_CASE("who takes its buffers back waits for a peer that is at work on them") {
  std::atomic<bool> at_work{false};
  std::atomic<bool> returned{false};
  expect_no_errors(run_ranks(2, [&](const std::shared_ptr<Communicator>& communicator) {
    Executor& executor = *communicator->on_host();
    Withdrawal withdrawal = communicator->membership().control.withdrawal();
    if (communicator->rank() == 1) {
      // As an operation on peers' buffers does, which has looked whether anybody has withdrawn.
      withdrawal.touch();
      at_work.store(true, std::memory_order_release);
      while (!withdrawal.has_withdrawn(0)) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      require(!returned.load(std::memory_order_acquire), "rank 0 did not wait");
      withdrawal.release();
    } else {
      while (!at_work.load(std::memory_order_acquire)) std::this_thread::yield();
      executor.withdraw();
      const SharedState& peer = communicator->membership().control.members().state(1);
      const bool is_free = peer.touching.load(std::memory_order_acquire) == 0;
      returned.store(true, std::memory_order_release);
      require(is_free, "rank 0 returned while its peer was at work");
    }
  }));
}

TEST_CASE("a rank that leaves is named by those who wait for it") {
  const auto errors = run_ranks(3, [&](const std::shared_ptr<Communicator>& communicator) {
    std::vector<float> data(4, 1.0f);
    if (communicator->rank() == 2) return;
    submit(communicator, all_reduce(data.data(), data.data(), data.size()));
  });
  CHECK(errors[0].find("rank 2") != std::string::npos);
  CHECK(errors[1].find("rank 2") != std::string::npos);
}

TEST_CASE("transfers between pairs match in order, of any size") {
  expect_no_errors(run_ranks(3, [&](const std::shared_ptr<Communicator>& communicator) {
    const int ranks = communicator->ranks();
    const Rank next = (communicator->rank() + 1) % ranks;
    const Rank previous = (communicator->rank() + ranks - 1) % ranks;
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{5000}, std::size_t{300000}}) {
      std::vector<std::vector<float>> out;
      std::vector<std::vector<float>> in;
      for (int message = 0; message < 3; ++message) {
        out.emplace_back(count, static_cast<float>(communicator->rank() * 10 + message));
        in.emplace_back(count, -1.0f);
      }
      group_start();
      for (auto& data : out)
        submit(communicator,
               PointToPointRequest{Direction::send, data.data(), count, DataType::float32, next, nullptr});
      for (auto& data : in)
        submit(communicator,
               PointToPointRequest{Direction::recv, data.data(), count, DataType::float32, previous, nullptr});
      group_end();
      for (int message = 0; message < 3; ++message)
        for (const float value : in[static_cast<std::size_t>(message)])
          require(value == static_cast<float>(previous * 10 + message), "wrong data");
    }
  }));
}

TEST_CASE("one thread drives all ranks of a group") {
  const UniqueId id = create_unique_id();
  std::vector<std::shared_ptr<Communicator>> communicators;
  group_start();
  for (Rank rank = 0; rank < 4; ++rank) {
    communicators.push_back(std::make_shared<Communicator>(CommunicatorOptions{id, rank, 4, 0, -1, "", true}));
    submit_init(communicators.back());
  }
  group_end();
  for (const std::size_t count : {1u, 100000u}) {
    std::vector<std::vector<float>> data(4, std::vector<float>(count, 1.0f));
    group_start();
    for (Rank rank = 0; rank < 4; ++rank) {
      auto& mine = data[static_cast<std::size_t>(rank)];
      submit(communicators[static_cast<std::size_t>(rank)], all_reduce(mine.data(), mine.data(), count));
    }
    group_end();
    for (const auto& mine : data)
      CHECK(std::accumulate(mine.begin(), mine.end(), 0.0) == 4.0 * static_cast<double>(count));
  }
}

TEST_CASE("abort returns after work that began at the same time has ended") {
  for (int repeat = 0; repeat < 200; ++repeat) {
    CommunicatorOptions options{create_unique_id(), 0, 1, 0, -1, "", false};
    const auto communicator = std::make_shared<Communicator>(std::move(options));
    std::atomic<bool> begun{false};
    std::atomic<bool> ended{false};
    std::thread aborter([&] {
      while (!begun) std::this_thread::yield();
      communicator->abort();
      CHECK(ended);
    });
    submit_setup(communicator, [&] {
      begun = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ended = true;
    });
    aborter.join();
    communicator->lifecycle().background().settle();
  }
}

// A peer that has sent what it had to send and left, before this rank looked again.
TEST_CASE("a call that a look at the peers completes is complete") {
  std::atomic<bool> has_left{false};
  expect_no_errors(run_ranks(2, [&](const std::shared_ptr<Communicator>& communicator) {
    float value = static_cast<float>(communicator->rank() + 1);
    const CollectiveRequest request{Collective::broadcast, &value, &value, 1, DataType::float32, {}, 1, nullptr};
    Executor& executor = *communicator->on_host();
    if (communicator->rank() == 1) {
      submit(communicator, request);
      communicator->membership().control.health().leave(Presence::destroyed);
      has_left = true;
      return;
    }
    executor.begin(request);
    while (executor.step() != Executor::Progress::done && !has_left) std::this_thread::yield();
    if (value != 2) require(executor.check_health() == Executor::Progress::done, "the call is not complete");
    require(value == 2, "wrong data");
  }));
}

TEST_CASE("what a communicator tells of itself may be asked for while it is made in the background") {
  const UniqueId id = create_unique_id();
  std::vector<std::shared_ptr<Communicator>> made;
  for (Rank rank = 0; rank < 2; ++rank)
    made.push_back(std::make_shared<Communicator>(CommunicatorOptions{id, rank, 2, 0, -1, "", false}));
  for (const auto& communicator : made) submit_init(communicator);
  for (const auto& communicator : made)
    while (communicator->lifecycle().async_error() == kInProgress) {
      try {
        memory_use(*communicator);
        communicator->one_sided();
      } catch (const Error&) {
        continue;  // not yet
      }
    }
  for (const auto& communicator : made) CHECK(memory_use(*communicator).persistent_bytes > 0);
}

TEST_CASE("a revocation ends calls that never wait") {
  std::atomic<int> begun{0};
  std::atomic<int> ended{0};
  const auto errors = run_ranks(2, [&](const std::shared_ptr<Communicator>& communicator) {
    std::vector<float> data(1 << 20, 1.0f);
    std::thread revoker([&] {
      while (begun < 2) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      communicator->revoke();
    });
    ++begun;
    std::string error;
    try {
      group_start();
      for (int i = 0; i < 3000; ++i) submit(communicator, all_reduce(data.data(), data.data(), data.size()));
      group_end();
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
    revoker.join();
    // A communicator that goes earlier would be told of instead.
    ++ended;
    while (ended < 2) std::this_thread::yield();
    if (!error.empty()) throw std::runtime_error(error);
  });
  for (const std::string& error : errors) CHECK_THAT(error, Catch::Contains("revoked"));
}
