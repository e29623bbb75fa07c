#include "world.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include "id_process.h"

namespace api_test {
namespace {

std::string call_function(const BareFunction& function, int rank, const ncclUniqueId& id) {
  try {
    return function(rank, id);
  } catch (const std::exception& error) {
    return std::string("threw ") + error.what();
  }
}

std::vector<std::string> run_threads(int ranks, const ncclUniqueId& id, const BareFunction& function) {
  std::vector<std::string> results(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { results[static_cast<std::size_t>(rank)] = call_function(function, rank, id); });
  for (std::thread& thread : threads) thread.join();
  return results;
}

struct Child {
  pid_t process;
  int results;
};

Child start_child(int rank, const ncclUniqueId& id, const BareFunction& function) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {-1, -1};  // a rank may become another program
  std::fflush(nullptr);
  const pid_t process = ::fork();
  if (process != 0) {
    ::close(ends[1]);
    return {process, ends[0]};
  }
  ::close(ends[0]);
  const std::string result = call_function(function, rank, id);
  std::size_t written = 0;
  while (written < result.size()) {
    const ssize_t count = ::write(ends[1], result.data() + written, result.size() - written);
    if (count <= 0) break;
    written += static_cast<std::size_t>(count);
  }
  // Not exit(): the parent's test framework must not report a second time.
  ::_exit(0);
}

std::string collect(const Child& child) {
  std::string result;
  char buffer[4096];
  ssize_t count = 0;
  while ((count = ::read(child.results, buffer, sizeof buffer)) > 0)
    result.append(buffer, static_cast<std::size_t>(count));
  ::close(child.results);
  int status = 0;
  ::waitpid(child.process, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) result += " [ended with status " + std::to_string(status) + "]";
  return result;
}

}  // namespace

std::vector<std::string> run_bare_world(Mode mode, int ranks, const BareFunction& function) {
  if (mode == Mode::threads) {
    ncclUniqueId id;
    if (ncclGetUniqueId(&id) != ncclSuccess) return {std::string("ncclGetUniqueId: ") + ncclGetLastError(nullptr)};
    return run_threads(ranks, id, function);
  }
  const sccl_test::IdProcess root;
  if (!root.problem().empty()) return {root.problem()};
  std::vector<Child> children;
  for (int rank = 0; rank < ranks; ++rank) children.push_back(start_child(rank, root.id(), function));
  std::vector<std::string> results;
  for (const Child& child : children) results.push_back(collect(child));
  return results;
}

std::vector<std::string> run_world(Mode mode, int ranks, const RankFunction& function) {
  return run_bare_world(mode, ranks, [&](int rank, const ncclUniqueId& id) -> std::string {
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, ranks, id, rank) != ncclSuccess)
      return std::string("ncclCommInitRank: ") + ncclGetLastError(nullptr);
    std::string result = function(rank, comm);
    if (ncclCommDestroy(comm) != ncclSuccess) result += std::string(" ncclCommDestroy: ") + ncclGetLastError(nullptr);
    return result;
  });
}

std::string failures(const std::vector<std::string>& results) {
  std::string all;
  for (std::size_t rank = 0; rank < results.size(); ++rank)
    if (!results[rank].empty()) all += "rank " + std::to_string(rank) + ": " + results[rank] + "\n";
  return all;
}

}  // namespace api_test
