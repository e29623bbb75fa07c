// How the ranks of a group find each other in a store, which may still hold what an earlier attempt left there: a
// restart of torchrun keeps its store.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace sccl_torch {

using Milliseconds = std::chrono::milliseconds;

// PyTorch's Store, behind the three things that are needed of it.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  virtual std::string get(const std::string& key) = 0;
  // False: not all of them were there in time.
  virtual bool wait(const std::vector<std::string>& keys, Milliseconds patience) = 0;
};

// What rank 0 gives to all: `invitation` as it is, and a name that no other group has.
struct Invited {
  std::string invitation;
  std::string name;
};

// A number of 128 random bits, in hexadecimal digits.
std::string random_name();

// Every rank says a new random word. Rank 0 tells all words with its invitation; a rank believes it only if its own
// word is there, and answers. Words and invitations of an earlier attempt thus never count: a rank reads the invitation
// until its word is in it, and rank 0 reads the words again until all have answered with the word that it told. Its
// invitation stays the same meanwhile, so that whoever has answered may go on at once; `prepare` is called with the
// name before that. Throws Failure that names the ranks which did not come within `timeout`; `group` is for its text.
Invited meet(Rendezvous& rendezvous, int rank, int ranks, Milliseconds timeout, const std::string& group,
             const std::function<std::string()>& make_invitation,
             const std::function<void(const std::string&)>& prepare);

}  // namespace sccl_torch
