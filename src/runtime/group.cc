#include "runtime/group.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/communicator.h"
#include "runtime/driver.h"

namespace sccl::runtime {
namespace {

struct Group {
  int depth = 0;
  std::optional<Error> error;
  std::vector<std::shared_ptr<Communicator>> inits;
  std::vector<Workload> work;

  Workload& of(const std::shared_ptr<Communicator>& communicator) {
    const auto found = std::find_if(work.begin(), work.end(),
                                    [&](const Workload& entry) { return entry.communicator == communicator; });
    if (found != work.end()) return *found;
    work.push_back({communicator, {}, {}});
    return work.back();
  }
};

Group& group() {
  thread_local Group instance;
  return instance;
}

// Every rank's init blocks until the others have come, so each needs a thread of its own.
void connect_all(const std::vector<std::shared_ptr<Communicator>>& communicators) {
  std::vector<std::optional<Error>> errors(communicators.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < communicators.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        communicators[i]->connect();
      } catch (const Error& error) {
        errors[i] = error;
      } catch (const std::exception& error) {
        errors[i] = Error(ErrorCode::system_error, error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors)
    if (error) throw Error(*error);
}

void check_stream(StreamHandle stream) {
  const auto value = reinterpret_cast<std::uintptr_t>(stream);
  constexpr std::uintptr_t kPerThreadDefault = 2;
  if (value > kPerThreadDefault)
    fail(ErrorCode::invalid_argument,
         "stream {} is no stream of the host platform, where work is complete when its call returns: pass NULL", stream);
}

void check_rank(const Communicator& communicator, Rank rank, const char* what) {
  if (rank < 0 || rank >= communicator.ranks())
    fail(ErrorCode::invalid_argument, "rank {}: {} {} is not a rank of 0..{}", communicator.rank(), what, rank,
         communicator.ranks() - 1);
}

}  // namespace

void group_start() { ++group().depth; }

bool in_group() { return group().depth > 0; }

void group_fail(const Error& error) {
  if (in_group() && !group().error) group().error = error;
}

void group_end() {
  Group& mine = group();
  if (mine.depth == 0) fail(ErrorCode::invalid_usage, "ncclGroupEnd without ncclGroupStart: pair the calls");
  if (--mine.depth > 0) return;
  Group closed = std::exchange(mine, Group{});
  if (closed.error) throw Error(*closed.error);
  if (!closed.inits.empty() && !closed.work.empty())
    fail(ErrorCode::invalid_usage, "one group holds both init of communicators and communication: use two groups");
  if (!closed.inits.empty()) connect_all(closed.inits);
  if (!closed.work.empty()) drive(closed.work);
}

void submit_init(const std::shared_ptr<Communicator>& communicator) {
  if (in_group())
    group().inits.push_back(communicator);
  else
    communicator->connect();
}

void submit(const std::shared_ptr<Communicator>& communicator, const CollectiveRequest& request) {
  communicator->check_usable();
  if (info(request.collective).rooted) check_rank(*communicator, request.root, "root");
  check_stream(request.stream);
  if (in_group())
    group().of(communicator).collectives.push_back(request);
  else
    drive(*communicator, request);
}

void submit(const std::shared_ptr<Communicator>& communicator, const PointToPointRequest& request) {
  communicator->check_usable();
  check_rank(*communicator, request.peer, "peer");
  check_stream(request.stream);
  if (in_group()) {
    group().of(communicator).transfers.push_back(request);
    return;
  }
  std::vector<Workload> work;
  work.push_back({communicator, {}, {request}});
  drive(work);
}

}  // namespace sccl::runtime
