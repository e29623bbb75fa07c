// Measured choices, kept per machine in SCCL_CACHE_DIR for the next job.
//
// Measured times depend on the machine (processor, cores this process may use), the links and the number of ranks. The
// file contains all of these, and its name is their hash. A file that is damaged, or of another machine or version, is
// ignored; one line of the log says so. The format is that of base/os/sealed_file.h.
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

// The calls for which a choice was measured.
struct TuningKey {
  Collective collective = Collective::allreduce;
  Rank root = 0;
  SizeClass size;
  bool any_order = false;  // the order of summation does not matter

  auto operator<=>(const TuningKey&) const = default;
};

// Of a call whose `count` elements have so many bytes.
TuningKey key_of(Collective collective, Rank root, DataType type, std::size_t bytes);

struct TunedChoice {
  Choice choice;
  double us = 0;
  std::string second;  // text() of the next best choice; "" when there was none
  double second_us = 0;
};

using TuningTable = std::map<TuningKey, TunedChoice>;

// Everything on which measured times depend. `links` is SCCL_TOPO's topology as text, or "" for the host's own links.
struct TuningPlace {
  std::string machine;
  std::string links;
  int ranks = 2;
};
TuningPlace tuning_place(const std::string& links, int ranks, Reach reach);

std::filesystem::path tuning_path(const std::filesystem::path& folder, const TuningPlace& place);

std::string to_text(const TuningPlace& place, const TuningTable& table);
// Nothing when the text belongs to another place or is not understood; `why` then holds the reason. Null as `place`
// accepts every place.
std::optional<TuningTable> from_text(const std::string& text, const TuningPlace* place, std::string& why);

// Empty when there is no usable file. One line of the log names an unusable file.
TuningTable load_tuning(const std::filesystem::path& folder, const TuningPlace& place);
// Adds the entries to those of the file. False when the folder cannot be written.
bool store_tuning(const std::filesystem::path& folder, const TuningPlace& place, const TuningTable& table);

}  // namespace sccl::runtime
