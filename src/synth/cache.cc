#include "synth/cache.h"

#include <dlfcn.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/sealed_file.h"
#include "schedule/verify.h"
#include "synth/frontier_json.h"
#include "topology/canonical.h"

namespace sccl::synth {
namespace {

using nlohmann::json;

constexpr std::string_view kKind = "sccl-frontier 1";

std::vector<int> inverse(std::span<const int> number) {
  std::vector<int> result(number.size());
  for (std::size_t i = 0; i < number.size(); ++i) result[static_cast<std::size_t>(number[i])] = static_cast<int>(i);
  return result;
}

bool rooted(Collective collective) {
  return info(collective).rooted;
}

Frontier under_new_numbers(Frontier frontier, std::span<const int> number, const topology::Topology& topology) {
  for (Point& point : frontier.points) point.schedule = synth::renumbered(point.schedule, number, topology);
  return frontier;
}

bool fits(const Point& point, Collective collective, Rank root) {
  const schedule::Schedule& schedule = point.schedule;
  int rounds = 0;
  for (const int r : schedule.rounds) rounds += r;
  return schedule.collective == collective && (!rooted(collective) || schedule.root == root) &&
         schedule.chunks_per_rank == point.size.chunks && schedule.steps == point.size.steps &&
         rounds == point.size.rounds;
}

}  // namespace

schedule::Schedule renumbered(const schedule::Schedule& schedule, std::span<const int> number,
                              const topology::Topology& topology) {
  const auto new_rank = [&](Rank rank) { return number[static_cast<std::size_t>(rank)]; };
  const auto new_chunk = [&](schedule::ChunkId chunk) {
    const int ranks = schedule.ranks;
    switch (schedule.collective) {
      case Collective::broadcast:
      case Collective::reduce:
        return chunk;
      case Collective::alltoall: {
        const int piece = chunk / ranks / ranks;
        return (piece * ranks + new_rank(chunk / ranks % ranks)) * ranks + new_rank(chunk % ranks);
      }
      default:
        return chunk / ranks * ranks + new_rank(chunk % ranks);
    }
  };
  schedule::Schedule result = schedule;
  result.topology = topology;
  result.root = rooted(schedule.collective) ? new_rank(schedule.root) : schedule.root;
  for (schedule::Send& send : result.sends)
    send = {new_chunk(send.chunk), new_rank(send.src), new_rank(send.dst), send.step, send.kind};
  if (!schedule.weights.empty())
    for (std::size_t chunk = 0; chunk < schedule.weights.size(); ++chunk)
      result.weights[static_cast<std::size_t>(new_chunk(static_cast<int>(chunk)))] = schedule.weights[chunk];
  return result;
}

std::optional<Cache> Cache::of_user() {
  if (auto folder = cache_folder()) return Cache(*std::move(folder));
  return std::nullopt;
}

// Beside the file that holds this code: lib/libsccl.so or bin/sccl.
std::optional<Cache> Cache::installed() {
  static const char here = 0;
  Dl_info file{};
  std::error_code error;
  if (::dladdr(&here, &file) == 0 || file.dli_fname == nullptr) return std::nullopt;
  const std::filesystem::path own = std::filesystem::canonical(file.dli_fname, error);
  if (error) return std::nullopt;
  std::filesystem::path folder = own.parent_path();
  for (int up = 0; up < 3; ++up, folder = folder.parent_path())  // lib/x86_64-linux-gnu is the deepest
    if (const auto catalogue = folder / "share" / "sccl" / "catalogue"; std::filesystem::is_directory(catalogue, error))
      return Cache(catalogue);
  return std::nullopt;
}

std::filesystem::path Cache::path(const topology::Topology& topology, Collective collective, Rank root) const {
  const topology::CanonicalForm form = topology::canonical_form(topology);
  const int own_root = rooted(collective) ? form.number[static_cast<std::size_t>(root)] : 0;
  return folder_ / fmt::format("{}-{}-{}.frontier", form.key, info(collective).name, own_root);
}

std::optional<Frontier> Cache::load(const topology::Topology& topology, Collective collective, Rank root) const {
  try {
    const topology::CanonicalForm form = topology::canonical_form(topology);
    const SealedText file = read_sealed(path(topology, collective, root), kKind);
    if (file.state != SealedState::whole) return std::nullopt;
    const json entry = json::parse(file.text);
    if (entry.at("topology").get<std::string>() != form.text) return std::nullopt;
    Frontier frontier = frontier_from_json(entry.at("found"));
    for (const Point& point : frontier.points)
      if (point.schedule.ranks != topology.ranks) return std::nullopt;
    frontier = under_new_numbers(std::move(frontier), inverse(form.number), topology);
    for (const Point& point : frontier.points) {
      if (!fits(point, collective, root)) return std::nullopt;
      schedule::verify(point.schedule);
    }
    return frontier;
  } catch (const Error&) {
    return std::nullopt;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

bool Cache::store(const topology::Topology& topology, Collective collective, Rank root,
                  const Frontier& frontier) const {
  const topology::CanonicalForm form = topology::canonical_form(topology);
  const topology::Topology canonical = topology::relabelled(topology, form.number);
  const std::string body =
      json{{"topology", form.text}, {"found", to_json(under_new_numbers(frontier, form.number, canonical))}}.dump();
  return write_sealed(path(topology, collective, root), kKind, body);
}

}  // namespace sccl::synth
