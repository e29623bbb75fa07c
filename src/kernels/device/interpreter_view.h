// Where the interpreter finds the program, the call and the state of the lanes.
//
// On the host in references of its own. In a block of threads at places that the target knows when it is compiled: the
// interpreter has no members there, so no load goes through an object on a thread's stack.
#pragma once

#include "kernels/device/operation.h"
#include "kernels/device/protocol.h"

namespace sccl::device {

template <class Target, bool kAlone = Target::kAlone>
class InterpreterView {
 public:
  using Connection = typename Target::Connection;

  InterpreterView(const Program& program, const Call& call, Connection* connections, LaneState* lanes, Target& target)
      : program_(program), call_(call), connections_(connections), lanes_(lanes), target_(target) {}

 protected:
  const Program& program() const { return program_; }
  const Call& call() const { return call_; }
  Connection* connections() const { return connections_; }
  LaneState* lanes() const { return lanes_; }
  Target& target() const { return target_; }
  Scope& owed() { return owed_; }

 private:
  Scope owed_ = Scope::none;
  const Program& program_;
  const Call& call_;
  Connection* connections_;
  LaneState* lanes_;
  Target& target_;
};

template <class Target>
class InterpreterView<Target, false> {
 protected:
  using Connection = typename Target::Connection;

  static const Program& program() { return Target::program(); }
  static const Call& call() { return Target::call(); }
  static Connection* connections() { return Target::connections(); }
  static LaneState* lanes() { return Target::lanes(); }
  static Target target() { return {}; }
  static Scope& owed() { return Target::owed(); }
};

}  // namespace sccl::device
