// What a tuner plugin (NCCL_TUNER_PLUGIN) wants to serve calls, by collective and size class.
//
// NCCL asks its plugin at every call and every rank, and hopes for equal answers. Here rank 0 alone asks, once for
// every size class when the communicator is made, and all ranks use its answers: they cannot choose differently,
// whatever the plugin says, and a call costs nothing more.
//
// The plugin sees NCCL's cost table with this library's estimates: Ring is the planner ring, Tree is binomial (trees on
// named links), PAT is recursive; what cannot serve the call is unavailable. Where the plugin changes the table, the
// least entry serves. Where it leaves the table as it is, the library's own choice stands.
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
  // What the questions depend on.
  struct Situation {
    int ranks = 2;
    bool named_links = false;
    double alpha_us = 0;
    double gbytes_per_s = 1;
    std::size_t slot_bytes = 0;
    Settings settings;
    // Whether calls of so many bytes, counted as the C call does, could be served so.
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

  // For the other ranks. What is not understood gives no wish.
  std::string to_text() const;
  static TunerChoices from_text(const std::string& text);

 private:
  std::map<std::pair<Collective, SizeClass>, CallWish> wishes_;
};

}  // namespace sccl::runtime
