#include "synth/cache.h"

#include <dlfcn.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/os/sealed_file.h"
#include "schedule/proof/verify.h"
#include "synth/frontier_json.h"
#include "topology/formats/json.h"
#include "topology/symmetry/automorphisms.h"
#include "topology/symmetry/canonical.h"

namespace sccl::synth {
namespace {

using nlohmann::json;

constexpr std::string_view kKind = "sccl-frontier 2";

std::vector<int> inverse(std::span<const int> number) {
  std::vector<int> result(number.size());
  for (std::size_t i = 0; i < number.size(); ++i) result[static_cast<std::size_t>(number[i])] = static_cast<int>(i);
  return result;
}

bool rooted(Collective collective) { return info(collective).rooted; }

Frontier under_new_numbers(Frontier frontier, std::span<const int> number, const topology::Topology& topology) {
  for (Point& point : frontier.points) point.schedule = synth::renumbered(point.schedule, number, topology);
  return frontier;
}

// Canonical numbers of the nodes. Among the numberings that symmetries allow, the choice gives equivalent roots the
// same number.
struct Place {
  topology::CanonicalForm form;
  int root = 0;  // canonical number of the root; 0 without a root
};

Place place_of(const topology::Topology& topology, Collective collective, Rank root) {
  Place place{topology::canonical_form(topology), 0};
  if (!rooted(collective)) return place;
  const std::vector<int> rank_of = inverse(place.form.number);
  for (int number = 0; number < topology.ranks; ++number) {
    const auto moving = topology::automorphism_moving(topology, root, rank_of[static_cast<std::size_t>(number)]);
    if (!moving) continue;
    std::vector<int> moved(place.form.number.size());
    for (std::size_t node = 0; node < moved.size(); ++node)
      moved[node] = place.form.number[static_cast<std::size_t>((*moving)[node])];
    place.form.number = std::move(moved);
    place.root = number;
    break;
  }
  return place;
}

std::string file_name(const Place& place, Collective collective) {
  return fmt::format("{}-{}-{}.frontier", place.form.key, info(collective).name, place.root);
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

std::optional<Cache> Cache::beside(const std::filesystem::path& binary) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::canonical(binary, error).parent_path();
  // lib/libsccl.so, lib/x86_64-linux-gnu/libsccl.so, bin/sccl
  constexpr int kMostLevels = 3;
  for (int level = 0; level < kMostLevels && !error && folder.has_relative_path(); ++level) {
    folder = folder.parent_path();
    if (const auto catalogue = folder / "share" / "sccl" / "catalogue"; std::filesystem::is_directory(catalogue, error))
      return Cache(catalogue);
    error.clear();
  }
  return std::nullopt;
}

std::optional<Cache> Cache::installed() {
  Dl_info own{};
  if (::dladdr(reinterpret_cast<const void*>(&place_of), &own) == 0 || own.dli_fname == nullptr) return std::nullopt;
  // For the main program, dladdr gives the name by which it was called, which need not be a path to it.
  const bool is_library = std::string_view(own.dli_fname).find(".so") != std::string_view::npos;
  return beside(is_library ? own.dli_fname : "/proc/self/exe");
}

std::filesystem::path Cache::path(const topology::Topology& topology, Collective collective, Rank root) const {
  return folder_ / file_name(place_of(topology, collective, root), collective);
}

std::optional<Frontier> Cache::load(const topology::Topology& topology, Collective collective, Rank root) const {
  try {
    const Place place = place_of(topology, collective, root);
    const topology::CanonicalForm& form = place.form;
    const SealedText file = read_sealed(folder_ / file_name(place, collective), kKind);
    if (file.state != SealedState::whole) return std::nullopt;
    json entry = json::parse(file.text);
    if (entry.at("topology").get<std::string>() != form.text) return std::nullopt;
    const json canonical = topology::to_json(topology::relabelled(topology, form.number));
    for (json& point : entry.at("found").at("frontier")) point.at("schedule")["topology"] = canonical;
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
  const Place place = place_of(topology, collective, root);
  const topology::CanonicalForm& form = place.form;
  const topology::Topology canonical = topology::relabelled(topology, form.number);
  json found = to_json(under_new_numbers(frontier, form.number, canonical));
  // The schedules' topology follows from the entry's topology, and would take most of the file.
  for (json& point : found.at("frontier")) point.at("schedule").erase("topology");
  const std::string body = json{{"topology", form.text}, {"found", std::move(found)}}.dump();
  return write_sealed(folder_ / file_name(place, collective), kKind, body);
}

std::optional<Known> known(const topology::Topology& topology, Collective collective, Rank root) {
  for (const auto& [cache, source] :
       {std::pair(Cache::of_user(), Source::user), std::pair(Cache::installed(), Source::catalogue)})
    if (cache)
      if (auto frontier = cache->load(topology, collective, root)) return Known{*std::move(frontier), source};
  return std::nullopt;
}

}  // namespace sccl::synth
