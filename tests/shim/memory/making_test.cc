// A rank that runs out of memory while it makes a communicator with others fails, and the others learn of it: none
// waits until its time limit. Afterwards the parent, if there is one, is as it was. Tried with every allocation.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "nccl_shim/nccl.h"
#include "shortage.h"
#include "world.h"

using namespace api_test;
using sccl_test::Shortage;

namespace {

// A rank that is told what happened has another text than a rank that waited so long.
struct LongLimits {
  LongLimits() {
    ::setenv("SCCL_INIT_TIMEOUT_MS", "20000", 1);
    ::setenv("SCCL_TIMEOUT_MS", "20000", 1);
  }
  ~LongLimits() {
    ::unsetenv("SCCL_INIT_TIMEOUT_MS");
    ::unsetenv("SCCL_TIMEOUT_MS");
  }
};

struct Short {
  int rank = 0;
  Shortage::Of of = Shortage::Of::thread;
  Shortage::Lasts lasts = Shortage::Lasts::one_allocation;
};

// What a rank knows of one attempt.
struct Attempt {
  int rank = 0;
  const Short* who = nullptr;
  Mode mode = Mode::threads;
  ncclResult_t result = ncclSuccess;
  std::string told{};

  bool is_short() const { return rank == who->rank; }
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

// "" if the rank failed as it should, or made its communicator.
std::string wrong_in(const Attempt& attempt) {
  if (attempt.result == ncclSuccess) return "";
  const std::string text = " [" + std::to_string(attempt.result) + ": " + attempt.told + "]";
  // In one process a rank may find that another one's memory has gone before the root tells why.
  const bool found_out = attempt.mode == Mode::threads && contains(attempt.told, "lost another rank of its process");
  if (!contains(attempt.told, "memory") && !found_out) return "does not tell the reason" + text;
  // Of its process the root may be short, which then tells all ranks.
  const bool by_root = attempt.who->of == Shortage::Of::process && contains(attempt.told, "the root, in process ");
  if (attempt.is_short())
    return attempt.result == ncclSystemError || attempt.result == ncclInternalError || by_root
               ? ""
               : "fails otherwise" + text;
  if (attempt.result != ncclRemoteError && !by_root) return "fails otherwise than by another rank" + text;
  // In one process there is only one last text, which may be another rank's.
  if (attempt.mode == Mode::threads) return "";
  const std::string named = "rank " + std::to_string(attempt.who->rank);
  if (!contains(attempt.told, named + " (") && !contains(attempt.told, named + " on ") && !by_root)
    return "names no rank" + text;
  return contains(attempt.told, host_name()) ? "" : "names no host" + text;
}

// The sum over all ranks; negative after an error.
double sum(ncclComm_t comm, double value) {
  return ncclAllReduce(&value, &value, 1, ncclFloat64, ncclSum, comm, nullptr) == ncclSuccess ? value : -1;
}

// What to do where ranks make a communicator: null where a rank has no part in it.
struct Place {
  ncclComm_t all = nullptr;
  ncclComm_t parent = nullptr;
  ncclUniqueId id{};
};
struct Kind {
  const char* name;
  int ranks;
  bool grows;  // the last rank is no member of the parent
  std::function<ncclResult_t(int rank, const Place& place, ncclComm_t* child)> make;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      {"Split", 3, false,
       [](int, const Place& place, ncclComm_t* child) { return ncclCommSplit(place.parent, 0, 0, child, nullptr); }},
      {"Split by name", 3, false,
       [](int rank, const Place& place, ncclComm_t* child) {
         ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
         config.commName = "a name that is long enough to need memory of its own";
         return ncclCommSplit(place.parent, 0, -rank, child, &config);
       }},
      {"two Splits in a group", 3, false,
       [](int, const Place& place, ncclComm_t* child) {
         ncclComm_t other = nullptr;
         ncclGroupStart();
         const ncclResult_t first = ncclCommSplit(place.parent, 0, 0, child, nullptr);
         const ncclResult_t second = ncclCommSplit(place.parent, 0, 0, &other, nullptr);
         const ncclResult_t end = ncclGroupEnd();
         if (other != nullptr) ncclCommAbort(other);
         return first != ncclSuccess ? first : second != ncclSuccess ? second : end;
       }},
      {"Shrink", 3, false,
       [](int rank, const Place& place, ncclComm_t* child) {
         int excluded = 2;
         if (rank == 2) return ncclSuccess;
         return ncclCommShrink(place.parent, &excluded, 1, child, nullptr, NCCL_SHRINK_DEFAULT);
       }},
      {"Grow", 3, true,
       [](int rank, const Place& place, ncclComm_t* child) {
         return ncclCommGrow(place.parent, 3, rank == 1 ? nullptr : &place.id, rank == 2 ? 2 : -1, child, nullptr);
       }},
  };
  return all;
}

// "" when the parent and what is left of the attempt are as they should be.
std::string wrong_after(const Kind& kind, const Place& place, const Attempt& attempt, ncclComm_t child) {
  const double members = kind.grows ? kind.ranks - 1 : kind.ranks;
  const bool parent_works = place.parent == nullptr || sum(place.parent, 1) == members;
  const bool made = attempt.result == ncclSuccess && child != nullptr;
  const double makers = sum(place.all, made ? 1 : 0);
  const double failed = sum(place.all, attempt.result == ncclSuccess ? 0 : 1);
  if (!parent_works) return "the parent is broken";
  if (!made) return "";
  if (failed == 0) return sum(child, 1) == makers ? "" : "the child does not work";
  // The other rank failed when it had met this one, and may have aborted its child since.
  if (sum(child, 1) >= 0) return "the child works without a rank";
  const std::string told = ncclGetLastError(child);
  return contains(told, "memory") || contains(told, "was aborted") ? "" : "the child tells " + told;
}

// For all ranks of the world in turn.
struct Sweep {
  const Kind& kind;
  Mode mode;
  Short who;

  std::string run(int rank, ncclComm_t all) const {
    Place place{all};
    if (ncclCommSplit(all, kind.grows && rank == kind.ranks - 1 ? NCCL_SPLIT_NOCOLOR : 0, 0, &place.parent, nullptr) !=
        ncclSuccess)
      return std::string("the parent: ") + ncclGetLastError(all);
    std::string wrong;
    int shortages = 0;
    for (long allocations = 0;; ++allocations) {
      if (kind.grows && !share_id(rank, place)) return "no id: " + std::string(ncclGetLastError(all));
      Attempt attempt{rank, &who, mode};
      ncclComm_t child = nullptr;
      const bool felt = make(place, allocations, attempt, child);
      std::string found = wrong_in(attempt);
      const std::string later = wrong_after(kind, place, attempt, child);
      if (!found.empty() && !later.empty()) found += "; ";
      found += later;
      if (!found.empty() && wrong.size() < 1000) wrong += std::to_string(allocations) + ": " + found + "\n";
      if (child != nullptr) ncclCommAbort(child);
      const double ends = sum(all, attempt.is_short() && !felt ? 1 : found == "the parent is broken" ? 100 : 0);
      if (ends != 0) break;
      ++shortages;
    }
    if (place.parent != nullptr) ncclCommAbort(place.parent);
    return shortages < 20 ? wrong + "only " + std::to_string(shortages) + " shortages" : wrong;
  }

  bool make(const Place& place, long allocations, Attempt& attempt, ncclComm_t& child) const {
    bool felt = false;
    if (attempt.is_short()) {
      const Shortage shortage(allocations, who.of, who.lasts);
      attempt.result = kind.make(attempt.rank, place, &child);
      felt = shortage.was_felt();
    } else {
      attempt.result = kind.make(attempt.rank, place, &child);
    }
    if (attempt.result != ncclSuccess) attempt.told = ncclGetLastError(nullptr);
    return felt;
  }

  static bool share_id(int rank, Place& place) {
    if (rank == 0 && ncclCommGetUniqueId(place.parent, &place.id) != ncclSuccess) return false;
    return ncclBroadcast(&place.id, &place.id, sizeof place.id, ncclUint8, 0, place.all, nullptr) == ncclSuccess;
  }
};

void sweep_all(Mode mode, Shortage::Of of, Shortage::Lasts lasts) {
  const LongLimits limits;
  for (const Kind& kind : kinds())
    for (const int rank : {0, 1}) {
      // New ranks wait at the root, and telling it takes memory.
      if (kind.grows && lasts == Shortage::Lasts::until_the_end) continue;
      INFO(kind.name << " with rank " << rank << " short of memory, ranks as " << name(mode));
      const Sweep sweep{kind, mode, {rank, of, lasts}};
      CHECK(failures(run_world(mode, kind.ranks, [&](int own, ncclComm_t all) { return sweep.run(own, all); })) == "");
    }
}

// Of one init of ranks of which one is short.
std::vector<std::string> init_once(Mode mode, const Short& who, long allocations) {
  return run_bare_world(mode, 3, [&](int rank, const ncclUniqueId& id) -> std::string {
    Attempt attempt{rank, &who, mode};
    ncclComm_t comm = nullptr;
    bool felt = false;
    if (attempt.is_short()) {
      const Shortage shortage(allocations, who.of, who.lasts);
      attempt.result = ncclCommInitRank(&comm, 3, id, rank);
      felt = shortage.was_felt();
    } else {
      attempt.result = ncclCommInitRank(&comm, 3, id, rank);
    }
    if (attempt.result != ncclSuccess) attempt.told = ncclGetLastError(nullptr);
    std::string wrong = wrong_in(attempt);
    // Where one failed when all had met, the others learn of it by the next call.
    if (attempt.result == ncclSuccess && sum(comm, 1) != 3 && !contains(ncclGetLastError(comm), "memory"))
      wrong += std::string("a call tells ") + ncclGetLastError(comm);
    ncclCommAbort(comm);
    if (felt || !attempt.is_short()) return wrong;
    return wrong + "enough";
  });
}

void sweep_init(Mode mode, Shortage::Of of) {
  const LongLimits limits;
  for (const int rank : {0, 1}) {
    std::string wrong;
    long allocations = 0;
    for (;; ++allocations) {
      std::vector<std::string> told = init_once(mode, {rank, of}, allocations);
      std::string& own = told[static_cast<std::size_t>(rank)];
      if (own == "enough") break;
      const std::string found = failures(told);
      if (!found.empty() && wrong.size() < 1000) wrong += std::to_string(allocations) + ": " + found;
      if (own.ends_with("enough")) break;
    }
    INFO("rank " << rank << " short of memory, ranks as " << name(mode));
    CHECK(wrong == "");
    CHECK(allocations > 20);
  }
}

}  // namespace

TEST_CASE("a rank that lacks memory for an allocation of a Split or Shrink or Grow tells the others") {
  sweep_all(Mode::threads, Shortage::Of::thread, Shortage::Lasts::one_allocation);
}

TEST_CASE("a process that lacks memory for an allocation of a Split or Shrink or Grow tells the others",
          "[processes]") {
  sweep_all(Mode::processes, Shortage::Of::process, Shortage::Lasts::one_allocation);
}

TEST_CASE("a rank that lacks memory for one allocation of its init tells the others") {
  sweep_init(Mode::threads, Shortage::Of::thread);
}

TEST_CASE("a process that lacks memory for one allocation of its init tells the others", "[processes]") {
  sweep_init(Mode::processes, Shortage::Of::process);
}

TEST_CASE("a rank whose memory is used up in a Split or Shrink tells the others") {
  sweep_all(Mode::threads, Shortage::Of::thread, Shortage::Lasts::until_the_end);
}
