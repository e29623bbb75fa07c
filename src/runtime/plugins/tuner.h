// A tuner plugin for NCCL (NCCL_TUNER_PLUGIN) of any version: answers questions about a cost table.
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

// The plugin of one communicator's rank, from init to finalize. Not for use by several threads at once.
class TunerPlugin {
 public:
  struct Communicator {
    std::uint64_t identity = 0;
    int ranks = 1;
    std::vector<int> ranks_by_host = {1};
  };
  // Null when there is no plugin, or the plugin cannot be used; one log line says why.
  static std::unique_ptr<TunerPlugin> open(const Communicator& communicator);
  // The same of a library that was opened before, which may be null.
  static std::unique_ptr<TunerPlugin> open(std::shared_ptr<PluginLibrary> library, const Communicator& communicator);
  ~TunerPlugin();
  TunerPlugin(const TunerPlugin&) = delete;
  TunerPlugin& operator=(const TunerPlugin&) = delete;

  // Whether plugins are asked about the collective, because NCCL's tuners know it.
  static bool knows(Collective collective);

  // Passes the table to the plugin, which may change the table. False when the plugin fails; the table is then
  // unchanged. `bytes`: the size of the larger of a rank's buffers.
  bool ask(Collective collective, std::size_t bytes, tuner_abi::CostTable& costs);
  // The chunk size that the plugin wants instead of the library's `usual` size (version 6); nothing when the plugin has
  // no wish.
  std::optional<std::size_t> chunk_bytes(Collective collective, std::size_t bytes, int algorithm, int protocol,
                                         std::size_t usual);

  // "name (v5) of /path"
  std::string text() const;

 private:
  TunerPlugin(std::shared_ptr<PluginLibrary> library, int version) : library_(std::move(library)), version_(version) {}
  template <typename Table>
  bool bind(const Table& table);
  bool init(const Communicator& communicator);

  // The functions of all versions in one form.
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
