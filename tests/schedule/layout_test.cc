// Chunks tile the buffers exactly, whatever the count.
#include "schedule/layout.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace sccl;
using namespace sccl::schedule;

namespace {

Schedule bare(Collective collective, int ranks, int chunks_per_rank) {
  return make_schedule("bare", collective, 0, topology::host(ranks), chunks_per_rank, {});
}

std::vector<ChunkPlace> places_of(const Schedule& schedule, std::size_t count, std::size_t element_bytes) {
  std::vector<ChunkPlace> places(static_cast<std::size_t>(schedule.chunks));
  place_chunks(schedule, count, element_bytes, places);
  return places;
}

// Every element of [0, total) lies in exactly one of the chunks that `belongs` selects.
template <typename Offset>
void check_tiling(const std::vector<ChunkPlace>& places, std::size_t total, Offset&& offset) {
  std::vector<int> covered(total, 0);
  for (const ChunkPlace& place : places)
    for (std::size_t i = 0; i < place.elements; ++i) {
      REQUIRE(offset(place) + i < total);
      ++covered[offset(place) + i];
    }
  for (std::size_t i = 0; i < total; ++i) REQUIRE(covered[i] == 1);
}

}  // namespace

TEST_CASE("chunks tile the whole buffer") {
  const auto input = [](const ChunkPlace& place) { return place.input_offset; };
  const auto output = [](const ChunkPlace& place) { return place.output_offset; };
  for (const std::size_t count : {0u, 1u, 3u, 63u, 64u, 1000u, 1023u})
    for (const std::size_t element_bytes : {1u, 2u, 4u, 8u}) {
      check_tiling(places_of(bare(Collective::allreduce, 3, 6), count, element_bytes), count, input);
      check_tiling(places_of(bare(Collective::broadcast, 3, 5), count, element_bytes), count, output);
      check_tiling(places_of(bare(Collective::allgather, 3, 2), count, element_bytes), 3 * count, output);
      check_tiling(places_of(bare(Collective::reducescatter, 3, 6), count, element_bytes), 3 * count, input);
      check_tiling(places_of(bare(Collective::scatter, 3, 3), count, element_bytes), 3 * count, input);
    }
}

TEST_CASE("chunks of a block begin at whole cache lines of it") {
  for (const std::size_t count : {1u, 63u, 1000u, 100003u})
    for (const std::size_t element_bytes : {1u, 2u, 4u, 8u}) {
      CAPTURE(count, element_bytes);
      Schedule weighted = bare(Collective::broadcast, 3, 5);
      weighted.weights = {1, 2, 3, 1, 1};
      for (const Schedule& schedule : {bare(Collective::allreduce, 3, 6), bare(Collective::broadcast, 3, 5), weighted})
        for (const ChunkPlace& place : places_of(schedule, count, element_bytes))
          CHECK((place.input_offset == count || place.input_offset * element_bytes % 64 == 0));
    }
}

TEST_CASE("weighted chunks tile the buffer in proportion") {
  Schedule schedule = bare(Collective::broadcast, 3, 4);
  schedule.weights = {2, 2, 1, 1};
  const auto places = places_of(schedule, 6000, 4);
  check_tiling(places, 6000, [](const ChunkPlace& place) { return place.output_offset; });
  CHECK(places[0].elements == Approx(2000).margin(16));
  CHECK(places[3].elements == Approx(1000).margin(16));
}

TEST_CASE("the chunks of an AlltoAll go from the sender's block to the receiver's") {
  const auto places = places_of(bare(Collective::alltoall, 3, 3), 100, 4);
  // Chunk 5 goes from rank 5 mod 3 to rank floor(5 / 3).
  CHECK(places[5].input_offset == 100);
  CHECK(places[5].output_offset == 200);
  CHECK(places[5].elements == 100);
}
