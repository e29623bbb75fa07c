// Thread-local groups: calls that are submitted between start and end run at the outermost end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/os/out_of_memory.h"
#include "runtime/bootstrap/unique_id.h"
#include "runtime/call/requests.h"
#include "runtime/communicator/driver.h"

namespace sccl::runtime {

class Communicator;

// Whether the work is done when the call returns. Work of non-blocking communicators continues;
// Lifecycle::async_error tells when it has ended.
enum class Completion : std::uint8_t { done, in_progress };

// How a rank tells the others that it makes none of a set-up for which they wait. Needs no memory.
struct GiveUp {
  // Null: it does not tell.
  void (*tell)(Communicator& subject, const GiveUp& what, const char* why) noexcept = nullptr;
  // For `tell`.
  std::uint64_t list = 0;
  std::optional<UniqueId> id{};
  int ranks = 0;
};

// Set-up that needs all ranks, such as making a communicator from `subject`.
struct Setup {
  std::shared_ptr<Communicator> subject;
  std::function<void()> run;
  GiveUp give_up{};

  void drop(const char* why) const noexcept {
    if (give_up.tell != nullptr) give_up.tell(*subject, give_up, why);
  }
};

void group_start();

// At the outermost end: makes the queued communicators (for different subjects at the same time), or runs all queued
// work of this thread. If the group has an error, discards the queue and throws the first error; throws invalid_usage
// if no group is open. The group is closed in every case.
Completion group_end();

// Closes the group as group_end() does, but runs nothing; returns the queued work.
std::vector<Workload> group_discard();

bool in_group();

// Marks this thread's group as failed: the outermost end throws `error` and runs nothing. No effect outside a group.
void group_fail(const Error& error);
// The same where there is no memory for an error.
void group_lacks_memory() noexcept;

// Outside a group these functions act at once; inside a group they queue. The caller has checked for NULL communicators
// and enum ranges; these functions check the ranges of rank, root and peer.
Completion submit_init(const std::shared_ptr<Communicator>& communicator);
Completion submit(const std::shared_ptr<Communicator>& communicator, const CollectiveRequest& request);
// With what a program asks for with this call. Throws invalid_usage, before any rank is told, where an algorithm that
// must serve cannot.
Completion submit(const std::shared_ptr<Communicator>& communicator, const CollectiveRequest& request,
                  const CallOptions& options);
Completion submit(const std::shared_ptr<Communicator>& communicator, const PointToPointRequest& request);

// One-sided work: writing into a peer's window or signalling, and waiting for signals.
Completion submit(const std::shared_ptr<Communicator>& communicator, const PutRequest& request);
Completion submit(const std::shared_ptr<Communicator>& communicator, std::vector<SignalWait> waits,
                  StreamHandle stream);

// Set-ups of one subject run in the order of submission. One that lacks the memory to begin is dropped.
Completion submit_setup(Setup setup);
Completion submit_setup(const std::shared_ptr<Communicator>& subject, std::function<void()> setup);
// `prepare` returns the function, and may lack memory, too.
template <typename Prepare>
Completion submit_setup(const std::shared_ptr<Communicator>& subject, const GiveUp& give_up, Prepare&& prepare) {
  Setup setup{subject, nullptr, give_up};
  try {
    setup.run = prepare();
  } catch (const std::bad_alloc&) {
    setup.drop(kOutOfMemory);
    throw;
  }
  return submit_setup(std::move(setup));
}

}  // namespace sccl::runtime
