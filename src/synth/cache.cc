#include "synth/cache.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/env.h"
#include "base/error.h"
#include "base/fd.h"
#include "schedule/verify.h"
#include "synth/frontier_json.h"
#include "topology/automorphisms.h"
#include "topology/canonical.h"
#include "topology/json.h"

namespace sccl::synth {
namespace {

using nlohmann::json;

constexpr std::string_view kMagic = "sccl-frontier 2 ";
constexpr std::uintmax_t kMostBytes = 64u << 20;

// FNV-1a: against torn and flipped bytes, not against malice.
std::uint64_t checksum(std::string_view text) {
  std::uint64_t sum = 0xcbf29ce484222325u;
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return sum;
}

std::string header(std::string_view body) {
  return fmt::format("{}{:016x}\n", kMagic, checksum(body));
}

// The body of a file whose checksum is right.
std::optional<std::string> read(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::uintmax_t bytes = std::filesystem::file_size(path, ignored);
  if (ignored || bytes > kMostBytes) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::size_t end = text.find('\n');
  if (!file || end == std::string::npos) return std::nullopt;
  std::string body = text.substr(end + 1);
  if (text.compare(0, end + 1, header(body)) != 0) return std::nullopt;
  return body;
}

bool write(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// Beside its name first, under a name no other thread or process uses.
bool replace(const std::filesystem::path& path, std::string_view text) {
  static std::atomic<unsigned> serial{0};
  const std::string beside =
      fmt::format("{}.{}.{}", path.string(), ::getpid(), serial.fetch_add(1, std::memory_order_relaxed));
  bool good = false;
  {
    const FileDescriptor file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    good = file.valid() && write(file.get(), text) && ::fsync(file.get()) == 0;
  }
  if (good && ::rename(beside.c_str(), path.c_str()) == 0) return true;
  ::unlink(beside.c_str());
  return false;
}

bool make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) return true;
  if (folder.has_parent_path() && folder.parent_path() != folder && !make_folder(folder.parent_path())) return false;
  return ::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST;
}

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

// Canonical numbers of the nodes, chosen among those that symmetries allow so that roots alike have one number.
struct Place {
  topology::CanonicalForm form;
  int root = 0;  // its number; 0 where there is no root
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
  if (const auto own = env::text("SCCL_CACHE_DIR")) return Cache(*own);
  const auto folder = [](const char* variable) -> std::optional<std::filesystem::path> {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value != '/') return std::nullopt;
    return std::filesystem::path(value);
  };
  if (const auto cache = folder("XDG_CACHE_HOME")) return Cache(*cache / "sccl");
  if (const auto home = folder("HOME")) return Cache(*home / ".cache" / "sccl");
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
  // The main program's name is what it was called by.
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
    const auto body = read(folder_ / file_name(place, collective));
    if (!body) return std::nullopt;
    json entry = json::parse(*body);
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
  // It follows from the entry's own topology, and would be most of a file.
  for (json& point : found.at("frontier")) point.at("schedule").erase("topology");
  const std::string body = json{{"topology", form.text}, {"found", std::move(found)}}.dump();
  return make_folder(folder_) && replace(folder_ / file_name(place, collective), header(body) + body);
}

std::optional<Known> known(const topology::Topology& topology, Collective collective, Rank root) {
  for (const auto& [cache, source] :
       {std::pair(Cache::of_user(), Source::user), std::pair(Cache::installed(), Source::catalogue)})
    if (cache)
      if (auto frontier = cache->load(topology, collective, root)) return Known{*std::move(frontier), source};
  return std::nullopt;
}

}  // namespace sccl::synth
