// The communicators of this process. `sccl status` shows them, and a rank that waits for long looks through them.
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

// Visits the memberships in the order in which they were made, with their numbers from 1. No membership is destroyed
// during the visit.
void for_each_membership(const std::function<void(std::size_t number, const Membership&)>& visit);

}  // namespace sccl::runtime
