#include "runtime/membership/shared_memory.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/os/process_registry.h"

namespace sccl::runtime {
namespace {

// Numbers in the registry of the process that shares; 0: not shared.
struct Tokens {
  std::uint64_t memory = 0;
  std::uint64_t wake = 0;
  std::uint64_t mirrors = 0;
};

using Process = std::vector<Rank>;  // ascending

class Sharing {
 public:
  Sharing(const SharingRequest& request, Bootstrap& bootstrap, Deadline deadline)
      : request_(request), bootstrap_(bootstrap), deadline_(deadline) {}

  SharingOutcome run() {
    Tokens mine{register_shared(request_.mine.memory), 0, 0};
    if (request_.mine.wake) mine.wake = register_shared(request_.mine.wake);
    if (request_.mine.mirrors) mine.mirrors = register_shared(request_.mine.mirrors);
    tokens_ = gather_values(mine, "shared memory", bootstrap_, deadline_);
    if (std::any_of(request_.groups.ranks.begin(), request_.groups.ranks.end(),
                    [&](const Process& ranks) { return processes_of(ranks).size() > 1; }))
      exchange();
    outcome_.ranks.resize(tokens_.size());
    for (const Rank rank : request_.groups.beside(request_.rank)) outcome_.ranks[index(rank)] = find(rank);
    return std::move(outcome_);
  }

 private:
  static std::size_t index(Rank rank) { return static_cast<std::size_t>(rank); }
  std::uint64_t process(Rank rank) const { return request_.process_tokens[index(rank)]; }

  // The processes of `ranks`, ordered by their lowest ranks.
  std::vector<Process> processes_of(const std::vector<Rank>& ranks) const {
    std::vector<Process> processes;
    std::map<std::uint64_t, std::size_t> positions;
    for (const Rank rank : ranks) {
      const auto [at, is_new] = positions.emplace(process(rank), processes.size());
      if (is_new) processes.emplace_back();
      processes[at->second].push_back(rank);
    }
    return processes;
  }

  std::size_t descriptor_count(const Process& ranks) const {
    std::size_t count = host::OwnLife::kDescriptors;
    for (const Rank rank : ranks) {
      const Tokens& tokens = tokens_[index(rank)];
      count += 1 + (tokens.wake != 0 ? 1 : 0) + (tokens.mirrors != 0 ? 1 : 0);
    }
    return count;
  }

  // Every rank takes part in two all-gathers, even if its host has nothing to exchange.
  void exchange() {
    const std::vector<Process> processes = processes_of(request_.groups.beside(request_.rank));
    const auto own = std::find_if(processes.begin(), processes.end(), [&](const Process& ranks) {
      return std::find(ranks.begin(), ranks.end(), request_.rank) != ranks.end();
    });
    if (own->front() != request_.rank || processes.size() == 1) {
      bootstrap_.all_gather({}, deadline_);  // exchange_descriptors() of the leaders makes this all-gather
    } else {
      std::vector<Rank> leaders;
      std::vector<std::size_t> counts;
      for (const Process& ranks : processes) {
        leaders.push_back(ranks.front());
        counts.push_back(descriptor_count(ranks));
      }
      auto descriptors = bootstrap_.exchange_descriptors(leaders, counts, offered(*own), deadline_);
      for (std::size_t i = 0; i < processes.size(); ++i)
        if (processes[i].front() != request_.rank) take(processes[i], std::move(descriptors[i]));
    }
    bootstrap_.all_gather({}, deadline_);  // barrier: the leaders have mapped all that their neighbours look for
  }

  template <typename T>
  std::shared_ptr<T> find_own(std::uint64_t token, Rank rank) {
    auto found = find_shared<T>(token);
    if (!found)
      fail(ErrorCode::remote_error, "rank {} lost rank {} of its process during init: look at that rank's output",
           request_.rank, rank);
    outcome_.kept.push_back(found);
    return found;
  }

  std::vector<int> offered(const Process& own) {
    const auto life = request_.life.descriptors();
    std::vector<int> mine(life.begin(), life.end());
    for (const Rank rank : own) {
      const Tokens& tokens = tokens_[index(rank)];
      mine.push_back(find_own<host::Segment>(tokens.memory, rank)->descriptor());
      if (tokens.wake != 0) mine.push_back(find_own<const FileDescriptor>(tokens.wake, rank)->get());
      if (tokens.mirrors != 0) mine.push_back(find_own<host::Segment>(tokens.mirrors, rank)->descriptor());
    }
    return mine;
  }

  template <typename T>
  void keep(std::uint64_t token, const std::shared_ptr<T>& taken) {
    register_shared(token, taken);
    outcome_.kept.push_back(taken);
  }

  void take(const Process& ranks, std::vector<FileDescriptor> descriptors) {
    const std::uint64_t token = process(ranks.front());
    auto life = find_shared<const host::PeerLife>(token);
    if (!life)
      life = std::make_shared<const host::PeerLife>(std::move(descriptors.at(0)), std::move(descriptors.at(1)));
    keep(token, life);
    std::size_t at = host::OwnLife::kDescriptors;
    for (const Rank rank : ranks) {
      const Tokens& tokens = tokens_[index(rank)];
      keep(tokens.memory, host::Segment::map(descriptors.at(at++), request_.mine.memory->size()));
      if (tokens.wake != 0) keep(tokens.wake, std::make_shared<const FileDescriptor>(std::move(descriptors.at(at++))));
      if (tokens.mirrors != 0) keep(tokens.mirrors, host::Segment::map(descriptors.at(at++), request_.mirror_bytes));
    }
  }

  SharedByRank find(Rank rank) const {
    const Tokens& tokens = tokens_[index(rank)];
    const bool is_neighbour = process(rank) == process(request_.rank);
    SharedByRank found;
    if (rank == request_.rank) {
      found = request_.mine;
    } else {
      found.memory = find_shared<host::Segment>(tokens.memory);
      if (tokens.wake != 0) found.wake = find_shared<const FileDescriptor>(tokens.wake);
      if (tokens.mirrors != 0) found.mirrors = find_shared<host::Segment>(tokens.mirrors);
    }
    if (!is_neighbour) found.life = find_shared<const host::PeerLife>(process(rank));
    if (!found.memory || (!is_neighbour && !found.life) || (tokens.wake != 0 && !found.wake) ||
        (tokens.mirrors != 0 && !found.mirrors))
      fail(ErrorCode::remote_error, "rank {} lost another rank of its process during init: look at the ranks' output",
           request_.rank);
    return found;
  }

  const SharingRequest& request_;
  Bootstrap& bootstrap_;
  Deadline deadline_;
  std::vector<Tokens> tokens_;  // by rank
  SharingOutcome outcome_;
};

}  // namespace

SharingOutcome share_within_hosts(const SharingRequest& request, Bootstrap& bootstrap, Deadline deadline) {
  return Sharing(request, bootstrap, deadline).run();
}

}  // namespace sccl::runtime
