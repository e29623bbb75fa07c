// Worlds of ranks for tests: every rank runs the same function, as a thread or as a process.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nccl_shim/nccl.h"
#include "skip.h"

namespace api_test {

enum class Mode { threads, processes };

inline const char* name(Mode mode) { return mode == Mode::threads ? "threads" : "processes"; }

// ThreadSanitizer does not follow a fork of a process that has threads; under it ranks are threads only.
inline std::vector<Mode> modes() {
#if defined(__SANITIZE_THREAD__)
  return {Mode::threads};
#else
  return {Mode::threads, Mode::processes};
#endif
}

inline constexpr const char* kNoProcesses = "under ThreadSanitizer ranks are threads only";

// What a rank returns: "" or what went wrong. May be used for data as well.
using RankFunction = std::function<std::string(int rank, ncclComm_t comm)>;

// Makes a communicator of `ranks` ranks, runs `function` at each, destroys the communicator. Returns what the ranks
// returned. A rank that dies or throws returns text that says so.
std::vector<std::string> run_world(Mode mode, int ranks, const RankFunction& function);

// As run_world, but the ranks get the unique id and do everything themselves.
using BareFunction = std::function<std::string(int rank, const ncclUniqueId& id)>;
std::vector<std::string> run_bare_world(Mode mode, int ranks, const BareFunction& function);

// All non-empty texts of a world, joined.
std::string failures(const std::vector<std::string>& results);

}  // namespace api_test
