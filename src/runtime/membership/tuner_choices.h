// The wishes of a tuner plugin (NCCL_TUNER_PLUGIN), by collective and size class.
//
// NCCL asks its plugin at every call and every rank, and relies on equal answers. Here only rank 0 asks, once for every
// size class when the communicator is made, and all ranks use rank 0's answers. So ranks cannot choose differently,
// whatever the plugin answers, and calls do not become slower.
//
// The plugin sees NCCL's cost table with this library's estimates: Ring is the planner ring, Tree is binomial (trees on
// named links), PAT is recursive; entries that cannot serve the call are unavailable. If the plugin changes the table,
// the least entry serves the call. If not, the library's own choice stands.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/types.h"
#include "runtime/choice/tuning/size_class.h"
#include "runtime/plugins/tuner.h"
#include "runtime/settings/call_wish.h"

namespace sccl::runtime {

class TunerChoices {
 public:
  // All that the questions to the plugin depend on.
  struct Situation {
    int ranks = 2;
    bool named_links = false;
    double alpha_us = 0;
    double gbytes_per_s = 1;
    std::size_t slot_bytes = 0;
    Settings settings;
    // Whether the library could serve a call of `bytes` in this way. `bytes` is counted as in the C interface.
    std::function<bool(Collective, std::size_t bytes, const CallWish&)> possible;
  };
  static TunerChoices ask(TunerPlugin& plugin, const Situation& situation);

  bool empty() const { return wishes_.empty(); }
  // Null: the plugin has no wish.
  const CallWish* find(Collective collective, SizeClass size) const {
    if (wishes_.empty()) return nullptr;
    const auto found = wishes_.find({collective, size});
    return found == wishes_.end() ? nullptr : &found->second;
  }

  // The form in which rank 0 sends the wishes. from_text() stops at text that it does not understand.
  std::string to_text() const;
  static TunerChoices from_text(const std::string& text);

 private:
  std::map<std::pair<Collective, SizeClass>, CallWish> wishes_;
};

}  // namespace sccl::runtime
