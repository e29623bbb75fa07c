#include "meeting.h"

#include <algorithm>
#include <cstdio>
#include <random>
#include <thread>

#include "failure.h"

namespace sccl_torch {
namespace {

using Clock = std::chrono::steady_clock;
using Keys = std::vector<std::string>;

constexpr std::size_t kWordDigits = 32;
constexpr Milliseconds kFirstSlice{20};  // until what was read is read again: only old words make anybody wait so long
constexpr Milliseconds kLongestSlice{500};
constexpr Milliseconds kLongestPause{50};
const char* const kInvitationKey = "sccl/invitation";

std::string word_key(int rank) { return "sccl/word/" + std::to_string(rank); }
// Of this rank 0 to this rank: an answer to an earlier one, or of an earlier one, has another key.
std::string answer_key(const std::string& name, int rank, const std::string& word) {
  return "sccl/answer/" + name + "/" + std::to_string(rank) + "/" + word;
}

// What is written under kInvitationKey: the words in order of ranks, the invitation.
struct Round {
  std::string words;
  std::string invitation;

  std::string text() const { return words + invitation; }
  static Round of(const std::string& text, int ranks) {
    const std::size_t words = kWordDigits * static_cast<std::size_t>(ranks);
    if (text.size() < words) return {};  // of an attempt with fewer ranks
    return {text.substr(0, words), text.substr(words)};
  }
  bool invites(int rank, const std::string& word) const {
    return !words.empty() && words.compare(kWordDigits * static_cast<std::size_t>(rank), kWordDigits, word) == 0;
  }
};

class Meeting {
 public:
  Meeting(Rendezvous& rendezvous, int rank, int ranks, Milliseconds timeout, const std::string& group)
      : rendezvous_(rendezvous), rank_(rank), ranks_(ranks), timeout_(timeout), group_(group) {}

  void say_word() { rendezvous_.set(word_key(rank_), word_); }

  // Rank 0.
  void invite(const std::string& name, const std::string& invitation) {
    wait_for(word_keys());
    Milliseconds slice = kFirstSlice;
    for (std::string told;;) {
      const std::string words = all_words();
      if (words != told) rendezvous_.set(kInvitationKey, Round{words, name + invitation}.text());
      told = words;
      Keys answers;
      for (int rank = 1; rank < ranks_; ++rank)
        answers.push_back(
            answer_key(name, rank, words.substr(kWordDigits * static_cast<std::size_t>(rank), kWordDigits)));
      if (answers.empty() || rendezvous_.wait(answers, std::min(slice, left()))) return;
      if (left() <= Milliseconds(1)) fail_without(answers, 1);
      slice = std::min(slice * 2, kLongestSlice);
    }
  }

  // The other ranks.
  Invited accept(const std::function<void(const std::string&)>& prepare) {
    wait_for({kInvitationKey});
    for (Milliseconds pause{1};; pause = std::min(pause * 2, kLongestPause)) {
      const Round round = Round::of(rendezvous_.get(kInvitationKey), ranks_);
      if (round.invites(rank_, word_) && round.invitation.size() > kWordDigits) {
        const Invited invited{round.invitation.substr(kWordDigits), round.invitation.substr(0, kWordDigits)};
        prepare(invited.name);
        rendezvous_.set(answer_key(invited.name, rank_, word_), "1");
        return invited;
      }
      std::this_thread::sleep_for(std::min(pause, left()));  // an earlier attempt's invitation
      if (left() <= Milliseconds(1)) fail({0});
    }
  }

 private:
  Milliseconds left() const {
    const auto spent = std::chrono::duration_cast<Milliseconds>(Clock::now() - began_);
    return std::max(Milliseconds(1), timeout_ - spent);
  }

  // Throws, naming ranks without a word, if not all keys are there in time.
  void wait_for(const Keys& keys) {
    if (!rendezvous_.wait(keys, left())) fail_without(word_keys(), 0);
  }

  std::string all_words() {
    std::string words;
    for (int rank = 0; rank < ranks_; ++rank) {
      std::string word = rank == rank_ ? word_ : rendezvous_.get(word_key(rank));
      if (word.size() != kWordDigits)
        throw Failure(FailureKind::system, "the store holds something else under " + word_key(rank) +
                                               ": use a store of its own for each group");
      words += word;
    }
    return words;
  }

  Keys word_keys() const {
    Keys keys;
    for (int rank = 0; rank < ranks_; ++rank) keys.push_back(word_key(rank));
    return keys;
  }

  // `keys` are the ranks', in their order from `first` on.
  [[noreturn]] void fail_without(const Keys& keys, int first) {
    std::vector<int> missing;
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (!rendezvous_.wait({keys[i]}, Milliseconds(1))) missing.push_back(first + static_cast<int>(i));
    fail(missing);
  }

  [[noreturn]] void fail(const std::vector<int>& missing) {
    std::string names = missing.empty() ? "some rank" : missing.size() == 1 ? "rank " : "ranks ";
    for (std::size_t i = 0; i < missing.size(); ++i) names += (i == 0 ? "" : ", ") + std::to_string(missing[i]);
    throw Failure(FailureKind::timeout,
                  "Timed out waiting " + std::to_string(timeout_.count()) + "ms for the ranks of group " + group_ +
                      ": " + names + " of " + std::to_string(ranks_) +
                      " did not come: start all ranks, or raise the timeout of init_process_group or new_group");
  }

  Rendezvous& rendezvous_;
  const int rank_;
  const int ranks_;
  const Milliseconds timeout_;
  const std::string& group_;
  const Clock::time_point began_ = Clock::now();
  const std::string word_ = random_name();
};

}  // namespace

std::string random_name() {
  std::random_device device;
  std::string name;
  for (int i = 0; i < 4; ++i) {
    char digits[9];
    std::snprintf(digits, sizeof digits, "%08x", device());
    name += digits;
  }
  return name;
}

Invited meet(Rendezvous& rendezvous, int rank, int ranks, Milliseconds timeout, const std::string& group,
             const std::function<std::string()>& make_invitation,
             const std::function<void(const std::string&)>& prepare) {
  Meeting meeting(rendezvous, rank, ranks, timeout, group);
  meeting.say_word();
  if (rank != 0) return meeting.accept(prepare);
  const Invited invited{make_invitation(), random_name()};
  prepare(invited.name);
  meeting.invite(invited.name, invited.invitation);
  return invited;
}

}  // namespace sccl_torch
