// Finds the root among the addresses that a unique id names. The search tries the addresses in order, and starts the
// next attempt after a short time even if earlier attempts have no answer yet. So an interface that drops packets costs
// only this short time.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "runtime/bootstrap/meeting/wire.h"
#include "runtime/bootstrap/sockets/socket.h"

namespace sccl::runtime {

class RootSearch {
 public:
  // `addresses` must outlive this object.
  RootSearch(const std::vector<Address>& addresses, const Secret& secret) : addresses_(addresses), secret_(secret) {}

  struct Found {
    FileDescriptor socket;
    wire::Proof proof;
  };
  // Returns the first root that proves that it knows the secret and is `wanted`; nothing if there is none before the
  // policy's deadline. Throws SocketFailure::aborted, and the exceptions of the policy's watch.
  std::optional<Found> find(const WaitPolicy& policy, const std::function<bool(const wire::Proof&)>& wanted);

  // A stranger answered: a process that does not know the secret.
  bool met_stranger() const { return met_stranger_; }
  // Somebody took the connection, and did not say what was waited for.
  bool met_silence() const;
  // The last outcome for each address: "10.0.0.1:4711 (no answer), ..."
  std::string outcome_text() const;

 private:
  enum class Stage { connecting, greeting };
  struct Attempt {
    std::size_t index = 0;  // in addresses_
    FileDescriptor socket;
    Stage stage = Stage::connecting;
    wire::Hello hello;
    Bytes in;
  };

  void begin(std::size_t index);
  // Makes progress without waiting. Returns true when the attempt has found a wanted root.
  bool step(Attempt& attempt, const std::function<bool(const wire::Proof&)>& wanted);
  void give_up(Attempt& attempt, const std::string& why);
  void note_unfinished();

  const std::vector<Address>& addresses_;
  Secret secret_;
  std::vector<Attempt> attempts_;
  std::vector<std::string> outcomes_;  // by address
  wire::Proof proof_;
  bool met_stranger_ = false;
};

}  // namespace sccl::runtime
