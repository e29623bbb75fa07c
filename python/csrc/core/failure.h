// What goes wrong in a group, told in one line: what happened, with which values: what to do.
#pragma once

#include <stdexcept>
#include <string>

namespace sccl_torch {

enum class FailureKind { usage, timeout, peer, stopped, system };

class Failure : public std::runtime_error {
 public:
  Failure(FailureKind kind, const std::string& text) : std::runtime_error("sccl: " + text), kind_(kind) {}
  FailureKind kind() const { return kind_; }

 private:
  FailureKind kind_;
};

}  // namespace sccl_torch
