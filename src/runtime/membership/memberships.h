// The communicators of this process: what `sccl status` shows, and where a rank looks when it waits for long.
#pragma once

#include <cstddef>
#include <functional>

namespace sccl::runtime {

struct Membership;

// A membership is listed while this object lives.
class ListedMembership {
 public:
  explicit ListedMembership(const Membership& membership);
  ~ListedMembership();
  ListedMembership(const ListedMembership&) = delete;
  ListedMembership& operator=(const ListedMembership&) = delete;

 private:
  std::size_t number_;
};

// In the order in which they were made, with their numbers from 1. None is destroyed meanwhile.
void for_each_membership(const std::function<void(std::size_t number, const Membership&)>& visit);

}  // namespace sccl::runtime
