// PyTorch's Store as the core's rendezvous.
#pragma once

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
  bool wait(const std::vector<std::string>& keys, Milliseconds patience) override {
    try {
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
