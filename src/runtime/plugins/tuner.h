// A tuner plugin of NCCL's users (NCCL_TUNER_PLUGIN), whatever its version: what it says of a cost table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"
#include "runtime/plugins/plugin_library.h"
#include "runtime/plugins/tuner_abi.h"

namespace sccl::runtime {

// The plugin as one communicator's rank uses it, from init to finalize. Not for several threads at once.
class TunerPlugin {
 public:
  struct Communicator {
    std::uint64_t identity = 0;
    int ranks = 1;
    std::vector<int> ranks_by_host = {1};
  };
  // Null when there is no plugin, or it cannot be used: one line says why.
  static std::unique_ptr<TunerPlugin> open(const Communicator& communicator);
  // The same of a library that was opened before, which may be null.
  static std::unique_ptr<TunerPlugin> open(std::shared_ptr<PluginLibrary> library, const Communicator& communicator);
  ~TunerPlugin();
  TunerPlugin(const TunerPlugin&) = delete;
  TunerPlugin& operator=(const TunerPlugin&) = delete;

  // Whether plugins are asked about it: those that NCCL's tuners know.
  static bool knows(Collective collective);

  // Hands the table to the plugin, which may change it. False when the plugin fails; the table is then as it was.
  // `bytes`: the larger of a rank's buffers.
  bool ask(Collective collective, std::size_t bytes, tuner_abi::CostTable& costs);
  // The chunk that the plugin wants where `usual` is the library's own (version 6); nothing when it has no wish.
  std::optional<std::size_t> chunk_bytes(Collective collective, std::size_t bytes, int algorithm, int protocol,
                                         std::size_t usual);

  // "name (v5) of /path"
  std::string text() const;

 private:
  TunerPlugin(std::shared_ptr<PluginLibrary> library, int version) : library_(std::move(library)), version_(version) {}
  template <typename Table>
  bool bind(const Table& table);
  bool init(const Communicator& communicator);

  // Every version's functions in one form.
  using Init = std::function<int(const Communicator&)>;
  using Ask = std::function<int(int function, std::size_t bytes, tuner_abi::CostTable& costs)>;

  std::shared_ptr<PluginLibrary> library_;
  int version_;
  std::string name_;
  void* context_ = nullptr;
  bool initialised_ = false;
  Init init_;
  Ask ask_;
  int (*finalize_)(void*) = nullptr;
  decltype(tuner_abi::V6::get_chunk_size) get_chunk_size_ = nullptr;
};

}  // namespace sccl::runtime
