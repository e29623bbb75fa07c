// The cache gives back what was stored, to every job on equivalent devices, and nothing that is damaged or foreign.
#include "synth/cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "schedule/proof/verify.h"
#include "topology/presets.h"

using namespace sccl;
using namespace sccl::synth;

namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string pattern = fs::temp_directory_path() / "sccl-cache-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

Frontier frontier(const topology::Topology& topology, Collective collective, Rank root = 0) {
  Synthesizer synthesizer(topology, collective, root);
  ParetoOptions options;
  options.k = 1;
  options.more_steps = 1;
  return pareto(synthesizer, options, Limits{Deadline::in(std::chrono::seconds(20)), nullptr});
}

topology::Topology part(std::vector<int> devices) { return topology::subset(topology::preset("dgx1v"), devices); }

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void overwrite(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

}  // namespace

TEST_CASE("what was stored comes back, for this user only") {
  const Folder folder;
  const Cache cache(folder.path() / "a" / "b");
  const topology::Topology topology = part({0, 1, 2, 3});
  CHECK(!cache.load(topology, Collective::allgather, 0));
  const Frontier stored = frontier(topology, Collective::allgather);
  REQUIRE(cache.store(topology, Collective::allgather, 0, stored));
  const auto loaded = cache.load(topology, Collective::allgather, 0);
  REQUIRE(loaded);
  REQUIRE(loaded->points.size() == stored.points.size());
  CHECK(loaded->statement() == stored.statement());
  for (std::size_t i = 0; i < stored.points.size(); ++i) {
    CHECK(loaded->points[i].standing == stored.points[i].standing);
    CHECK(loaded->points[i].schedule.sends.size() == stored.points[i].schedule.sends.size());
    schedule::verify(loaded->points[i].schedule);
  }
  CHECK(!cache.load(topology, Collective::broadcast, 0));
  struct stat status {};
  REQUIRE(::stat(cache.folder().c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
}

TEST_CASE("a job on equivalent devices finds the entry in its own numbers") {
  const Folder folder;
  const Cache cache(folder.path());
  // The two quads of DGX-1, and one of them in another order.
  const topology::Topology first = part({0, 1, 2, 3});
  for (const Collective collective :
       {Collective::allgather, Collective::allreduce, Collective::alltoall, Collective::reducescatter})
    REQUIRE(cache.store(first, collective, 0, frontier(first, collective)));
  for (const auto& devices : {std::vector{4, 5, 6, 7}, {3, 1, 0, 2}, {6, 4, 7, 5}}) {
    const topology::Topology other = part(devices);
    for (const Collective collective :
         {Collective::allgather, Collective::allreduce, Collective::alltoall, Collective::reducescatter}) {
      const auto loaded = cache.load(other, collective, 0);
      REQUIRE(loaded);
      REQUIRE(!loaded->points.empty());
      for (const Point& point : loaded->points) schedule::verify(point.schedule);
    }
  }
  CHECK(!cache.load(part({0, 1, 4, 5}), Collective::allgather, 0));
}

TEST_CASE("roots are kept apart") {
  const Folder folder;
  const Cache cache(folder.path());
  // A chain: its end is not its middle.
  topology::Topology chain = topology::host(3);
  std::erase_if(chain.links, [](const topology::Link& link) { return std::abs(link.src - link.dst) != 1; });
  REQUIRE(cache.store(chain, Collective::broadcast, 1, frontier(chain, Collective::broadcast, 1)));
  const auto loaded = cache.load(chain, Collective::broadcast, 1);
  REQUIRE(loaded);
  CHECK(loaded->points.front().schedule.root == 1);
  CHECK(!cache.load(chain, Collective::broadcast, 0));
}

TEST_CASE("a damaged or foreign file counts as absent and is replaced") {
  const Folder folder;
  const Cache cache(folder.path());
  const topology::Topology topology = part({0, 1, 2});
  const Frontier stored = frontier(topology, Collective::allgather);
  REQUIRE(cache.store(topology, Collective::allgather, 0, stored));
  const fs::path path = cache.path(topology, Collective::allgather, 0);
  const std::string good = content(path);
  std::string flipped = good;
  flipped[good.size() / 2] = static_cast<char>(flipped[good.size() / 2] ^ 1);
  std::string other_version = good;
  other_version.replace(0, 15, "sccl-frontier 1");
  for (const std::string& bad : {std::string(), good.substr(0, good.size() / 2), good + "x", flipped, other_version,
                                 std::string("{}"), std::string(1000, '\0')}) {
    overwrite(path, bad);
    CHECK(!cache.load(topology, Collective::allgather, 0));
  }
  // Another topology's entry under this one's name.
  const topology::Topology other = part({0, 1, 2, 3});
  REQUIRE(cache.store(other, Collective::allgather, 0, frontier(other, Collective::allgather)));
  fs::copy_file(cache.path(other, Collective::allgather, 0), path, fs::copy_options::overwrite_existing);
  CHECK(!cache.load(topology, Collective::allgather, 0));
  REQUIRE(cache.store(topology, Collective::allgather, 0, stored));
  CHECK(cache.load(topology, Collective::allgather, 0));
}

TEST_CASE("an entry that is whole and well formed, but wrong, counts as absent") {
  const Folder folder;
  const Cache cache(folder.path());
  const topology::Topology topology = part({0, 1, 2, 3});
  const Frontier right = frontier(topology, Collective::allgather);
  const auto load_changed = [&](const std::function<void(schedule::Schedule&)>& change) {
    Frontier wrong = right;
    change(wrong.points.back().schedule);
    REQUIRE(cache.store(topology, Collective::allgather, 0, wrong));
    return cache.load(topology, Collective::allgather, 0).has_value();
  };
  REQUIRE(load_changed([](schedule::Schedule&) {}));
  CHECK_FALSE(load_changed([](schedule::Schedule& one) { one.sends.pop_back(); }));
  CHECK_FALSE(load_changed([](schedule::Schedule& one) { one.sends.clear(); }));
  // Two ranks learn one another's chunks twice, and not those they lack.
  CHECK_FALSE(load_changed([](schedule::Schedule& one) { one.sends.front() = one.sends.back(); }));
  CHECK_FALSE(load_changed([](schedule::Schedule& one) { std::swap(one.sends.front().src, one.sends.front().dst); }));
  CHECK(load_changed([](schedule::Schedule&) {}));
}

TEST_CASE("a place that cannot be written costs nothing but time") {
  const Folder folder;
  overwrite(folder.path() / "file", "");
  const Cache cache(folder.path() / "file" / "below");
  const topology::Topology topology = part({0, 1});
  CHECK(!cache.store(topology, Collective::allgather, 0, frontier(topology, Collective::allgather)));
  CHECK(!cache.load(topology, Collective::allgather, 0));
}

TEST_CASE("writers at the same time leave one whole file") {
  const Folder folder;
  const Cache cache(folder.path());
  const topology::Topology topology = part({0, 1, 2});
  const Frontier stored = frontier(topology, Collective::allgather);
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i)
    writers.emplace_back([&] {
      for (int j = 0; j < 5; ++j) cache.store(topology, Collective::allgather, 0, stored);
    });
  for (std::thread& writer : writers) writer.join();
  CHECK(cache.load(topology, Collective::allgather, 0));
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("roots that a symmetry exchanges share an entry") {
  const Folder folder;
  const Cache cache(folder.path());
  // The ends of a chain of four; its middle is another matter.
  topology::Topology chain = topology::preset("host:4");
  std::erase_if(chain.links, [](const topology::Link& link) { return std::abs(link.src - link.dst) != 1; });
  REQUIRE(cache.store(chain, Collective::scatter, 0, frontier(chain, Collective::scatter, 0)));
  const auto loaded = cache.load(chain, Collective::scatter, 3);
  REQUIRE(loaded);
  REQUIRE(!loaded->points.empty());
  for (const Point& point : loaded->points) {
    CHECK(point.schedule.root == 3);
    schedule::verify(point.schedule);
  }
  CHECK(!cache.load(chain, Collective::scatter, 1));
  CHECK(cache.path(chain, Collective::scatter, 0) == cache.path(chain, Collective::scatter, 3));
}

TEST_CASE("a catalogue is found beside the library or command it was installed with") {
  const Folder folder;
  const fs::path catalogue = folder.path() / "share" / "sccl" / "catalogue";
  fs::create_directories(catalogue);
  for (const char* place : {"lib/libsccl.so", "lib/x86_64-linux-gnu/libsccl.so", "bin/sccl"}) {
    const fs::path binary = folder.path() / place;
    fs::create_directories(binary.parent_path());
    overwrite(binary, "");
    REQUIRE(Cache::beside(binary));
    CHECK(fs::equivalent(Cache::beside(binary)->folder(), catalogue));
  }
  fs::create_symlink(folder.path() / "lib", folder.path() / "elsewhere");
  CHECK(Cache::beside(folder.path() / "elsewhere" / "libsccl.so"));
  CHECK(!Cache::beside(folder.path() / "lib" / "none.so"));
  fs::remove_all(catalogue);
  CHECK(!Cache::beside(folder.path() / "bin" / "sccl"));
}

TEST_CASE("the catalogue that is installed answers for well-known machines, whatever the root") {
  const auto catalogue = Cache::installed();
  REQUIRE(catalogue);
  for (const char* name : {"dgx1p", "dgx1v", "dgx2", "dgx-a100", "z52", "mi300x", "nvpairs4"}) {
    const topology::Topology topology = topology::preset(name);
    for (const Collective collective :
         {Collective::allgather, Collective::allreduce, Collective::broadcast, Collective::scatter}) {
      INFO(name << " " << sccl::info(collective).name);
      const auto found = catalogue->load(topology, collective, topology.ranks - 1);
      REQUIRE(found);
      CHECK(!found->points.empty());
    }
  }
}

TEST_CASE("the user's entry comes before the catalogue's, and a damaged one counts as absent in either") {
  const Folder folder;
  const topology::Topology topology = topology::preset("nvpairs4");
  ::setenv("SCCL_CACHE_DIR", (folder.path() / "user").c_str(), 1);
  auto found = known(topology, Collective::allgather, 0);
  REQUIRE(found);
  CHECK(found->source == Source::catalogue);
  REQUIRE(Cache::of_user()->store(topology, Collective::allgather, 0, found->frontier));
  CHECK(known(topology, Collective::allgather, 0)->source == Source::user);
  overwrite(Cache::of_user()->path(topology, Collective::allgather, 0), "damaged");
  CHECK(known(topology, Collective::allgather, 0)->source == Source::catalogue);
  ::unsetenv("SCCL_CACHE_DIR");

  const fs::path prefix = folder.path() / "prefix";
  fs::create_directories(prefix / "bin");
  fs::create_directories(prefix / "share" / "sccl" / "catalogue");
  overwrite(prefix / "bin" / "sccl", "");
  const auto other = Cache::beside(prefix / "bin" / "sccl");
  REQUIRE(other);
  const fs::path entry = other->path(topology, Collective::allgather, 0);
  fs::copy_file(Cache::installed()->path(topology, Collective::allgather, 0), entry);
  CHECK(other->load(topology, Collective::allgather, 0));
  std::string text = content(entry);
  text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 1);
  overwrite(entry, text);
  CHECK(!other->load(topology, Collective::allgather, 0));
}

TEST_CASE("SCCL_CACHE_DIR names the place") {
  ::setenv("SCCL_CACHE_DIR", "/nowhere/at/all", 1);
  REQUIRE(Cache::of_user());
  CHECK(Cache::of_user()->folder() == "/nowhere/at/all");
  ::unsetenv("SCCL_CACHE_DIR");
  ::setenv("XDG_CACHE_HOME", "/var/cache/me", 1);
  CHECK(Cache::of_user()->folder() == "/var/cache/me/sccl");
  ::unsetenv("XDG_CACHE_HOME");
}
