#include "runtime/control/hosts/links_report.h"

#include <chrono>
#include <utility>

namespace sccl::runtime::hosts {

void LinksReport::tell(std::string missing, std::vector<Address> own) {
  const std::lock_guard lock(mutex_);
  complete_ = missing.empty();
  missing_ = std::move(missing);
  own_addresses_ = std::move(own);
  if (complete_) changed_.notify_all();
}

std::string LinksReport::await(Deadline deadline, const std::atomic<bool>& abort, const std::function<void()>& check) {
  std::unique_lock lock(mutex_);
  while (!complete_ && !deadline.passed() && !abort.load(std::memory_order_acquire)) {  // pairs with abort()
    changed_.wait_for(lock, std::chrono::milliseconds(20));
    lock.unlock();
    if (check) check();
    lock.lock();
  }
  return missing_;
}

std::vector<Address> LinksReport::own_addresses() {
  const std::lock_guard lock(mutex_);
  return own_addresses_;
}

}  // namespace sccl::runtime::hosts
