// Measured choices, kept per machine in SCCL_CACHE_DIR for the next job.
//
// Beside the machine (processor, cores this process may use), an entry depends on the links and the number of ranks;
// all of this is in the file and makes its name. A file that is damaged, or of another machine or version, is ignored
// and said so in one line. In base/os/sealed_file.h's form.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "base/types.h"
#include "runtime/choice/dispatcher.h"
#include "runtime/choice/tuning/size_class.h"

namespace sccl::runtime {

// What a choice was measured for.
struct TuningKey {
  Collective collective = Collective::allreduce;
  Rank root = 0;
  SizeClass size;
  bool any_order = false;  // the order of summation does not matter

  auto operator<=>(const TuningKey&) const = default;
};

struct TunedChoice {
  Choice choice;
  double us = 0;
  std::string second;  // text() of the next best choice; "" when there was none
  double second_us = 0;
};

using TuningTable = std::map<TuningKey, TunedChoice>;

// What measured times depend on; `links` is SCCL_TOPO's topology as text, or "" for the host's own.
struct TuningPlace {
  std::string machine;
  std::string links;
  int ranks = 2;
};
TuningPlace tuning_place(const std::string& links, int ranks, Reach reach);

std::filesystem::path tuning_path(const std::filesystem::path& folder, const TuningPlace& place);

std::string to_text(const TuningPlace& place, const TuningTable& table);
// Nothing when the text belongs to another place (null: any will do) or is not understood; `why` then says so.
std::optional<TuningTable> from_text(const std::string& text, const TuningPlace* place, std::string& why);

// Empty when there is no file; one that cannot be used is named in one line of the log.
TuningTable load_tuning(const std::filesystem::path& folder, const TuningPlace& place);
// Adds to what is there. False when the folder cannot be written.
bool store_tuning(const std::filesystem::path& folder, const TuningPlace& place, const TuningTable& table);

}  // namespace sccl::runtime
