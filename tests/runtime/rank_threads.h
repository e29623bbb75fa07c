// Ranks as threads, for tests below the C API.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/types.h"

namespace sccl {

// Runs `body` for each rank in a thread; returns what each threw.
inline std::vector<std::string> run_ranks(int ranks, const std::function<void(Rank)>& body) {
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace sccl
