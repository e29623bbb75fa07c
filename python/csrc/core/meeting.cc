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
const char* const kInvitationKey = "sccl/invitation";

std::string word_key(int rank) { return "sccl/word/" + std::to_string(rank); }
std::string answer_key(const std::string& round, int rank) {
  return "sccl/answer/" + round + "/" + std::to_string(rank);
}
std::string go_key(const std::string& round) { return "sccl/go/" + round; }

template <typename KeyOf>
Keys keys_of(int ranks, KeyOf&& key_of) {
  Keys keys;
  for (int rank = 0; rank < ranks; ++rank) keys.push_back(key_of(rank));
  return keys;
}

// What is written under kInvitationKey: the attempt's name, the words in order of ranks, the invitation.
struct Round {
  std::string name;
  std::string words;
  std::string invitation;

  std::string text() const { return name + words + invitation; }
  static Round of(const std::string& text, int ranks) {
    const std::size_t words = kWordDigits * static_cast<std::size_t>(ranks);
    if (text.size() < kWordDigits + words) return {};  // of an attempt with fewer ranks
    return {text.substr(0, kWordDigits), text.substr(kWordDigits, words), text.substr(kWordDigits + words)};
  }
  bool invites(int rank, const std::string& word) const {
    return !name.empty() && words.compare(kWordDigits * static_cast<std::size_t>(rank), kWordDigits, word) == 0;
  }
};

class Meeting {
 public:
  Meeting(Rendezvous& rendezvous, int rank, int ranks, Milliseconds timeout, const std::string& group)
      : rendezvous_(rendezvous), rank_(rank), ranks_(ranks), timeout_(timeout), group_(group) {}

  void say_word() { rendezvous_.set(word_key(rank_), word_); }

  // Rank 0.
  void invite(const std::string& name, const std::string& invitation) {
    wait_for(keys_of(ranks_, word_key));
    Milliseconds slice = kFirstSlice;
    for (Round round;;) {
      const std::string words = all_words();
      if (words != round.words) {
        round = {random_name(), words, name + invitation};
        rendezvous_.set(kInvitationKey, round.text());
        rendezvous_.set(answer_key(round.name, 0), "1");
      }
      const Keys answers = keys_of(ranks_, [&](int rank) { return answer_key(round.name, rank); });
      if (rendezvous_.wait(answers, std::min(slice, left()))) return rendezvous_.set(go_key(round.name), "1");
      if (left() <= Milliseconds(1)) fail_without(answers);
      slice = std::min(slice * 2, kLongestSlice);
    }
  }

  // The other ranks.
  Invited accept(const std::function<void(const std::string&)>& prepare) {
    wait_for({kInvitationKey});
    Milliseconds slice = kFirstSlice;
    std::string prepared;
    for (;;) {
      const Round round = Round::of(rendezvous_.get(kInvitationKey), ranks_);
      if (round.invites(rank_, word_) && round.invitation.size() > kWordDigits) {
        const Invited invited{round.invitation.substr(kWordDigits), round.invitation.substr(0, kWordDigits)};
        if (prepared != invited.name) prepare(invited.name);
        prepared = invited.name;
        rendezvous_.set(answer_key(round.name, rank_), "1");
        if (rendezvous_.wait({go_key(round.name)}, std::min(slice, left()))) return invited;
        if (left() <= Milliseconds(1))
          fail_without(keys_of(ranks_, [&](int rank) { return answer_key(round.name, rank); }));
      } else {
        std::this_thread::sleep_for(std::min(slice / 10, left()));
        if (left() <= Milliseconds(1)) fail({0});
      }
      slice = std::min(slice * 2, kLongestSlice);
    }
  }

 private:
  Milliseconds left() const {
    const auto spent = std::chrono::duration_cast<Milliseconds>(Clock::now() - began_);
    return std::max(Milliseconds(1), timeout_ - spent);
  }

  // Throws, naming ranks without a word, if not all keys are there in time.
  void wait_for(const Keys& keys) {
    if (!rendezvous_.wait(keys, left())) fail_without(keys_of(ranks_, word_key));
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

  // `keys` are the ranks', in their order.
  [[noreturn]] void fail_without(const Keys& keys) {
    std::vector<int> missing;
    for (int rank = 0; rank < ranks_; ++rank)
      if (!rendezvous_.wait({keys[static_cast<std::size_t>(rank)]}, Milliseconds(1))) missing.push_back(rank);
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
