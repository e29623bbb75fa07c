// PyTorch's Store as the core's rendezvous.
#pragma once

#include <algorithm>
#include <thread>

#include "../core/group.h"
#include "version.h"

namespace sccl_torch {

class StoreRendezvous : public Rendezvous {
 public:
  explicit StoreRendezvous(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  void set(const std::string& key, const std::string& value) override {
    store_->set(key, std::vector<std::uint8_t>(value.begin(), value.end()));
  }
  std::string get(const std::string& key) override {
    const std::vector<std::uint8_t> value = store_->get(key);
    return std::string(value.begin(), value.end());
  }
  // Short waits only ask again and again: a wait of the store's own that runs out of time leaves the connection of a
  // TCPStore of old versions useless, and a FileStore's sleeps ten milliseconds between two looks.
  bool wait(const std::vector<std::string>& keys, Milliseconds patience) override {
    constexpr Milliseconds kLongestShortWait{1000};
    constexpr Milliseconds kAsked{20};
    const auto began = Clock::now();
    try {
      for (auto pause = std::chrono::microseconds(250);;
           pause = std::min(2 * pause, std::chrono::microseconds(10000))) {
        if (store_->check(keys)) return true;
        const auto spent = std::chrono::duration_cast<Milliseconds>(Clock::now() - began);
        if (spent >= patience) return false;
        if (patience > kLongestShortWait && spent > kAsked) break;
        std::this_thread::sleep_for(pause);
      }
      store_->wait(keys, patience);
      return true;
    } catch (const std::exception&) {
      return false;  // stores tell a timeout, and the end of their server, by exceptions of many types
    }
  }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace sccl_torch
