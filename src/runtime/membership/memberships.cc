#include "runtime/membership/memberships.h"

#include <map>
#include <mutex>

namespace sccl::runtime {
namespace {

struct List {
  std::mutex mutex;
  std::map<std::size_t, const Membership*> entries;
  std::size_t last = 0;
};

// Never destroyed: threads that read the list may outlive static destruction.
List& list() {
  static auto* const instance = new List;
  return *instance;
}

}  // namespace

ListedMembership::ListedMembership(const Membership& membership) {
  const std::lock_guard lock(list().mutex);
  number_ = ++list().last;
  list().entries[number_] = &membership;
}

ListedMembership::~ListedMembership() {
  const std::lock_guard lock(list().mutex);
  list().entries.erase(number_);
}

void for_each_membership(const std::function<void(std::size_t number, const Membership&)>& visit) {
  const std::lock_guard lock(list().mutex);
  for (const auto& [number, membership] : list().entries) visit(number, *membership);
}

}  // namespace sccl::runtime
