// Finds the root among the addresses that a unique id names. They are tried one after another, but none waits for long
// for those before it: an interface that swallows packets delays nobody by more than a moment.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "runtime/bootstrap/sockets/socket.h"
#include "runtime/bootstrap/wire.h"

namespace sccl::runtime {

class RootSearch {
 public:
  // Refers to `addresses`.
  RootSearch(const std::vector<Address>& addresses, const Secret& secret) : addresses_(addresses), secret_(secret) {}

  struct Found {
    FileDescriptor socket;
    wire::Proof proof;
  };
  // The first that proves to know the secret and is `wanted`; nothing when none does before the policy's deadline.
  // Throws SocketFailure::aborted, and what the policy's watch throws.
  std::optional<Found> find(const WaitPolicy& policy, const std::function<bool(const wire::Proof&)>& wanted);

  // Somebody answered who does not know the secret.
  bool met_stranger() const { return met_stranger_; }
  // What became of each address at the last try: "10.0.0.1:4711 (no answer), ..."
  std::string outcome_text() const;

 private:
  enum class Stage { connecting, greeting };
  struct Attempt {
    std::size_t index = 0;  // of the address
    FileDescriptor socket;
    Stage stage = Stage::connecting;
    wire::Hello hello;
    Bytes in;
  };

  void begin(std::size_t index);
  // True when it found a root.
  bool step(Attempt& attempt, const std::function<bool(const wire::Proof&)>& wanted);
  void give_up(Attempt& attempt, const std::string& why);

  const std::vector<Address>& addresses_;
  Secret secret_;
  std::vector<Attempt> attempts_;
  std::vector<std::string> outcomes_;  // by address
  wire::Proof proof_;
  bool met_stranger_ = false;
};

}  // namespace sccl::runtime
