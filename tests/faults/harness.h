// Worlds in which one rank meets a fault at a moment: every rank is a process, the parent strikes and keeps the time,
// the survivors tell what they got, make a new communicator without the victim, and count what they still hold.
#pragma once

#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "nccl_shim/nccl.h"

namespace faults_test {

// What happens to the victim.
enum class Fault {
  kill,      // SIGKILL, at a random time
  stop,      // SIGSTOP, and SIGCONT a while later
  exit,      // the process ends without destroying anything
  abort,     // another thread of the victim calls ncclCommAbort
  leave,     // destroys its communicator while the others go on
  mismatch,  // asks for another count than the others
};

const char* name(Fault fault);

// What all ranks do when the victim is struck, again and again until a call fails or, where none was killed or
// aborted, `rounds` are done.
struct Moment {
  const char* name;
  bool makes_communicator;  // the moment is init itself
  int rounds;
  // `count_shift` is 0 but for a victim that mismatches. Returns what the call returned; wrong data is
  // ncclInternalError.
  std::function<ncclResult_t(int rank, int ranks, ncclComm_t comm, std::size_t count_shift)> call;
  std::vector<std::pair<std::string, std::string>> environment{};
};

struct Plan {
  Fault fault = Fault::kill;
  Moment moment{};
  int ranks = 4;
  int victim = 2;
  unsigned seed = 1;
  int abort_within_us = 3000;  // of the beginning of the victim's round
  // How survivors come to a communicator of their own afterwards.
  enum class Recovery { none, new_id, shrink };
  Recovery recovery = Recovery::new_id;
  std::vector<std::pair<std::string, std::string>> environment{};
};

struct RankReport {
  ncclResult_t result = ncclSuccess;
  std::string text;                // ncclGetLastError
  double seconds_after_fault = 0;  // until the failed call returned; negative: before the fault
  std::string afterwards;          // "" or what recovery and clean-up left wrong
  bool finished = false;           // reached its end
};

struct Outcome {
  std::vector<RankReport> ranks;  // the victim's too
  bool hung = false;              // somebody was not done in time; all were killed
  std::string places;             // of a hang: where everybody was
};

Outcome run(const Plan& plan);

// What a process holds that a communicator could have leaked.
struct Census {
  std::size_t descriptors = 0;
  std::size_t threads = 0;
  std::size_t segments = 0;  // mappings of shared memory
  std::string difference(const Census& before) const;
};
Census census();
// As census(), but waits for helper threads to end: a root stays some ten seconds to tell latecomers of a failure.
Census settled_census(const Census& before);

}  // namespace faults_test
