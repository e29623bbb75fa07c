#include "runtime/vendor/vendor_choice.h"

namespace sccl::runtime {

bool VendorChoice::is_asked(Collective collective, const CallWish* wish) const {
  if (backend_ == nullptr) return false;
  if (wish != nullptr && !wish->algorithm.empty()) return wish->algorithm == kVendorAlgorithm;
  return membership_.settings.algorithm(collective) == kVendorAlgorithm;
}

// What is asked for, and measured times are for the usual forms only.
bool VendorChoice::may_measure(const TuningKey& key, const CallWish* wish) const {
  const Settings& settings = membership_.settings;
  return wish == nullptr && settings.algorithm(key.collective).empty() &&
         settings.protocol == ProtocolChoice::automatic && settings.chunk_bytes == 0 && may_change_sums(key);
}

bool VendorChoice::wants(const CollectiveRequest& request, const CallWish* wish) const {
  if (wish == nullptr) wish = membership_.wish_of(request);
  if (is_asked(request.collective, wish)) return true;
  const TuningKey key =
      key_of(request.collective, request.root, request.type, request.count * size_bytes(request.type));
  const TuneMode tune = membership_.settings.tune;
  if (tune == TuneMode::off || !may_measure(key, wish)) return false;
  if (tune == TuneMode::online) return true;
  const auto& table = membership_.tuning.measured.table;
  const auto found = table.find(key);
  return found != table.end() && is_vendor(found->second.choice);
}

void VendorChoice::add_to(std::vector<Ranked>& ranked, const TuningKey& key, const CallWish* wish) const {
  if (is_asked(key.collective, wish)) {
    ranked.assign(1, {vendors_choice(), 0, "asked for"});
    return;
  }
  if (membership_.settings.tune != TuneMode::online || !may_measure(key, wish)) return;
  if (ranked.size() == kMostEntrants) ranked.pop_back();
  ranked.push_back({vendors_choice(), 0, "the vendor's library"});
}

void VendorChoice::check(const std::string& call, const CallOptions* options) const {
  if (backend_ == nullptr) return;
  const VendorBackend::State state = backend_->state();
  const bool must = options != nullptr && options->must && options->wish.algorithm == kVendorAlgorithm;
  if (state != VendorBackend::State::refused && !(must && state == VendorBackend::State::left_out)) return;
  throw RefusedByAll(
      ErrorCode::invalid_usage,
      fmt::format("rank {}: {} wants the vendor's library, which no rank uses: {}: correct SCCL_VENDOR, or "
                  "set it to never; calls that do not name the algorithm {} go on",
                  membership_.rank, call, backend_->why_not(), kVendorAlgorithm));
}

}  // namespace sccl::runtime
