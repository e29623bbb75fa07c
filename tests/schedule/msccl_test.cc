// MSCCL's XML: algorithms in its published shapes are read and proved; broken files are refused by line, element, rule.
#include <catch2/catch.hpp>
#include <random>

#include "base/error.h"
#include "schedule/msccl/msccl_export.h"
#include "schedule/msccl/msccl_import.h"
#include "schedule/proof/verify.h"

using namespace sccl;
using namespace sccl::schedule;

namespace {

std::string step(int index, const std::string& type, const std::string& src, int src_offset, const std::string& dst,
                 int dst_offset, int count = 1, int awaited_block = -1, int awaited_step = -1, bool awaited = false) {
  return fmt::format(
      "<step s=\"{}\" type=\"{}\" srcbuf=\"{}\" srcoff=\"{}\" dstbuf=\"{}\" dstoff=\"{}\" cnt=\"{}\" depid=\"{}\" "
      "deps=\"{}\" hasdep=\"{}\"/>\n",
      index, type, src, src_offset, dst, dst_offset, count, awaited_block, awaited_step, awaited ? 1 : 0);
}

std::string block(int id, int send, int recv, int channel, const std::string& steps) {
  return fmt::format("<tb id=\"{}\" send=\"{}\" recv=\"{}\" chan=\"{}\">\n{}</tb>\n", id, send, recv, channel, steps);
}

std::string gpu(int id, int inputs, int outputs, int scratch, const std::string& blocks) {
  return fmt::format("<gpu id=\"{}\" i_chunks=\"{}\" o_chunks=\"{}\" s_chunks=\"{}\">\n{}</gpu>\n", id, inputs, outputs,
                     scratch, blocks);
}

std::string algo(const std::string& collective, int gpus, int chunks, const std::string& places,
                 const std::string& body, int channels = 1) {
  return fmt::format(
      "<!-- a comment, as published files have -->\n"
      "<algo name=\"test\" proto=\"Simple\" nchannels=\"{}\" nchunksperloop=\"{}\" ngpus=\"{}\" coll=\"{}\" "
      "{}>\n{}</algo>\n",
      channels, chunks, gpus, collective, places, body);
}

const std::string kInPlace = "inplace=\"1\" outofplace=\"0\" minBytes=\"0\" maxBytes=\"65536\"";
const std::string kBoth = "inplace=\"1\" outofplace=\"1\" minBytes=\"0\" maxBytes=\"0\"";
const std::string kOutOfPlace = "inplace=\"0\"";  // as msccl-tools writes it

// The ring of fused steps: a block sends its own chunk, passes partial sums on, then sums.
std::string ring_all_reduce(int ranks) {
  std::string body;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto chunk = [&](int behind) { return ((rank - behind) % ranks + ranks) % ranks; };
    int index = 0;
    std::string steps = step(index++, "s", "i", chunk(0), "o", chunk(0));
    for (int behind = 1; behind + 1 < ranks; ++behind) {
      steps += step(index++, "rrs", "i", chunk(behind), "o", chunk(behind));
    }
    steps += step(index++, "rrcs", "i", chunk(ranks - 1), "o", chunk(ranks - 1));
    for (int behind = 0; behind + 2 < ranks; ++behind) {
      steps += step(index++, "rcs", "i", chunk(behind), "o", chunk(behind));
    }
    steps += step(index++, "r", "i", chunk(ranks - 2), "o", chunk(ranks - 2));
    body += gpu(rank, ranks, ranks, 0, block(0, (rank + 1) % ranks, (rank + ranks - 1) % ranks, 0, steps));
  }
  return algo("allreduce", ranks, ranks, kBoth, body);
}

// Everyone sends everyone's share to scratch; local additions wait for all arrivals behind nops; the sums go round.
std::string all_pairs_all_reduce(int ranks) {
  std::string body;
  for (int rank = 0; rank < ranks; ++rank) {
    std::string blocks;
    std::string local;
    int index = 0;
    for (int other = 1; other + 1 < ranks; ++other) local += step(index++, "nop", "i", -1, "o", -1, 0, other, 1);
    for (int slot = 0; slot + 1 < ranks; ++slot)
      local += step(index++, "re", "s", slot, "i", rank, 1, slot == 0 ? ranks - 1 : -1, slot == 0 ? 1 : -1,
                    slot + 2 == ranks);
    blocks += block(0, -1, -1, 0, local);
    for (int i = 1; i < ranks; ++i) {
      const int peer = i <= rank ? i - 1 : i;
      const int slot_there = rank < peer ? rank : rank - 1;
      const int slot_here = peer < rank ? peer : peer - 1;
      blocks +=
          block(i, peer, peer, 0,
                step(0, "s", "i", peer, "s", slot_there) + step(1, "r", "i", rank, "s", slot_here, 1, -1, -1, true) +
                    step(2, "s", "i", rank, "i", rank, 1, 0, index - 1) + step(3, "r", "i", peer, "i", peer));
    }
    body += gpu(rank, ranks, 0, ranks - 1, blocks);
  }
  return algo("allreduce", ranks, ranks, kInPlace, body);
}

// Two channels a pair, and a local copy of the own block in blocks of its own.
std::string direct_all_gather(int ranks) {
  std::string body;
  for (int rank = 0; rank < ranks; ++rank) {
    std::string blocks = block(0, -1, -1, 0, step(0, "cpy", "i", 0, "o", 2 * rank)) +
                         block(1, -1, -1, 1, step(0, "cpy", "i", 1, "o", 2 * rank + 1));
    int id = 2;
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer == rank) continue;
      for (int channel = 0; channel < 2; ++channel)
        blocks += block(
            id++, peer, peer, channel,
            step(0, "s", "i", channel, "o", 2 * rank + channel) + step(1, "r", "i", channel, "o", 2 * peer + channel));
    }
    body += gpu(rank, 2, 2 * ranks, 0, blocks);
  }
  return algo("allgather", ranks, 2 * ranks, kOutOfPlace, body, 2);
}

// A chain of rcs with cnt > 1.
std::string chain_broadcast(int ranks, int root) {
  std::string body;
  for (int rank = 0; rank < ranks; ++rank) {
    const int position = (rank - root + ranks) % ranks;
    const bool last = position == ranks - 1;
    const int next = last ? -1 : (rank + 1) % ranks;
    const int before = position == 0 ? -1 : (rank + ranks - 1) % ranks;
    std::string steps =
        position == 0 ? step(0, "s", "i", 0, "o", 0, 4) : step(0, last ? "r" : "rcs", "i", 0, "o", 0, 4);
    std::string blocks = block(0, next, before, 0, steps);
    if (position == 0) blocks += block(1, -1, -1, 0, step(0, "cpy", "i", 0, "o", 0, 4));
    body += gpu(rank, 4, 4, 0, blocks);
  }
  return algo("broadcast", ranks, 4, kBoth, body);
}

// Rank r's chunk for target t stands at t in the input and at r in the target's output.
std::string direct_all_to_all(int ranks) {
  std::string body;
  for (int rank = 0; rank < ranks; ++rank) {
    std::string blocks = block(0, -1, -1, 0, step(0, "cpy", "i", rank, "o", rank));
    int id = 1;
    for (int peer = 0; peer < ranks; ++peer)
      if (peer != rank) blocks += block(id++, -1, peer, 0, step(0, "r", "i", rank, "o", peer));
    for (int peer = 0; peer < ranks; ++peer)
      if (peer != rank) blocks += block(id++, peer, -1, 0, step(0, "s", "i", peer, "o", rank));
    body += gpu(rank, ranks, ranks, 0, blocks);
  }
  return algo("alltoall", ranks, ranks, kOutOfPlace, body);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string refusal(const std::string& text) {
  try {
    schedule_from_msccl(msccl_from_xml(text));
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

// A Broadcast to one peer, a message a step.
Schedule chunk_by_chunk(int chunks) {
  std::vector<Send> sends;
  for (int chunk = 0; chunk < chunks; ++chunk) sends.push_back({chunk, 0, 1, chunk, SendKind::copy});
  return make_schedule("long", Collective::broadcast, 0, topology::host(2), chunks, sends);
}

}  // namespace

TEST_CASE("a ring AllReduce of fused steps becomes the ring's 2 (n - 1) steps") {
  for (const int ranks : {2, 3, 8}) {
    const Schedule schedule = schedule_from_msccl(msccl_from_xml(ring_all_reduce(ranks)));
    CHECK(schedule.collective == Collective::allreduce);
    CHECK(schedule.chunks == ranks);
    CHECK(schedule.steps == 2 * (ranks - 1));
    CHECK(schedule.sends.size() == static_cast<std::size_t>(2 * ranks * (ranks - 1)));
    CHECK(schedule.rounds == std::vector<int>(static_cast<std::size_t>(schedule.steps), 1));
    verify(schedule);
  }
}

TEST_CASE("an AllReduce through scratch with local additions behind nops becomes two steps") {
  const Schedule schedule = schedule_from_msccl(msccl_from_xml(all_pairs_all_reduce(5)));
  CHECK(schedule.steps == 2);
  CHECK(schedule.sends.size() == 2 * 5 * 4);
  verify(schedule);
}

TEST_CASE("channels become lanes, and the file's defaults are filled in") {
  const MscclAlgo algorithm = msccl_from_xml(direct_all_gather(4));
  CHECK(algorithm.out_of_place);
  CHECK_FALSE(algorithm.in_place);
  const Schedule schedule = schedule_from_msccl(algorithm);
  CHECK(schedule.chunks_per_rank == 2);
  CHECK(schedule.steps == 1);
  CHECK(schedule.topology.lanes(0, 3) == 2);
  CHECK(schedule.rounds == std::vector<int>{1});
}

TEST_CASE("the root is found, though the file does not name it") {
  for (const int root : {0, 2}) {
    const Schedule schedule = schedule_from_msccl(msccl_from_xml(chain_broadcast(4, root)));
    CHECK(schedule.root == root);
    CHECK(schedule.steps == 3);
    CHECK(schedule.sends.size() == 3 * 4);
  }
}

TEST_CASE("an AllToAll is read out of place and refused in place") {
  const std::string text = direct_all_to_all(4);
  CHECK(schedule_from_msccl(msccl_from_xml(text)).sends.size() == 12);
  CHECK_THAT(refusal(replaced(text, "inplace=\"0\"", "inplace=\"1\"")), Catch::Contains("alltoall cannot be in place"));
}

TEST_CASE("XML is written as it was read") {
  for (const std::string& text :
       {ring_all_reduce(4), all_pairs_all_reduce(4), direct_all_gather(3), chain_broadcast(4, 1)}) {
    const std::string once = to_xml(msccl_from_xml(text));
    CHECK(to_xml(msccl_from_xml(once)) == once);
    CHECK(once.find("<?xml") == std::string::npos);
    CHECK(once.find("outofplace") != std::string::npos);
  }
}

TEST_CASE("side by side chunks travel as one message, and doubled links get two channels") {
  topology::Topology pair = topology::host(2);
  for (topology::Link& link : pair.links) link.lanes = 2;
  std::vector<Send> sends;
  for (int chunk = 0; chunk < 8; ++chunk) sends.push_back({chunk, 0, 1, 0, SendKind::copy});
  const MscclAlgo algorithm = msccl_from_schedule(make_schedule("eight", Collective::broadcast, 0, pair, 8, sends));
  REQUIRE(algorithm.channels == 2);
  const MscclGpu& sender = algorithm.gpus[0];
  CHECK(sender.blocks[0].steps.size() == 1);
  CHECK(sender.blocks[0].steps[0].count == 4);
  CHECK(sender.blocks[1].steps[0].src.offset == 4);
}

TEST_CASE("more messages than a block has steps for are divided among blocks") {
  for (const int chunks : {256, 257, 600, 5000}) {
    INFO(chunks << " chunks");
    const Schedule schedule = chunk_by_chunk(chunks);
    const MscclAlgo algorithm = msccl_from_schedule(schedule);
    CHECK(algorithm.channels == (chunks + 255) / 256);
    for (const MscclGpu& gpu : algorithm.gpus)
      for (const MscclBlock& block : gpu.blocks) CHECK(block.steps.size() <= 256);
    const Schedule back = schedule_from_msccl(msccl_from_xml(to_xml(algorithm)));
    CHECK_NOTHROW(verify(back));
    CHECK(back.sends.size() == schedule.sends.size());
  }
}

// Every sum waits for the one before, in whatever block that was.
TEST_CASE("sums that are divided among blocks wait for one another") {
  constexpr int kChunks = 200;
  std::vector<Send> sends;
  for (int chunk = 0; chunk < kChunks; ++chunk)
    for (Rank from = 1; from < 4; ++from) sends.push_back({chunk, from, 0, 4 * chunk + from, SendKind::reduce});
  const Schedule schedule = make_schedule("sums", Collective::reduce, 0, topology::host(4), kChunks, sends);
  const MscclAlgo algorithm = msccl_from_schedule(schedule);
  CHECK(algorithm.channels > 1);
  const Schedule back = schedule_from_msccl(msccl_from_xml(to_xml(algorithm)));
  CHECK_NOTHROW(verify(back));
  CHECK(back.sends.size() == schedule.sends.size());
}

namespace {

void check_read_again(const Schedule& schedule) {
  REQUIRE_NOTHROW(verify(schedule));
  const Schedule back = schedule_from_msccl(msccl_from_xml(to_xml(msccl_from_schedule(schedule))));
  CHECK_NOTHROW(verify(back));
  CHECK(back.sends.size() == schedule.sends.size());
}

}  // namespace

TEST_CASE("a chunk that reaches a rank twice, or comes back to its source, is exported and read again") {
  const std::vector<std::vector<Send>> routes{
      {{0, 0, 1, 0, SendKind::copy}, {0, 1, 2, 1, SendKind::copy}, {0, 2, 1, 2, SendKind::copy}},
      {{0, 0, 1, 0, SendKind::copy}, {0, 1, 0, 1, SendKind::copy}, {0, 0, 2, 2, SendKind::copy}},
      {{0, 0, 1, 0, SendKind::copy}, {0, 1, 2, 1, SendKind::copy}, {0, 2, 0, 2, SendKind::copy}},
  };
  for (const std::vector<Send>& sends : routes)
    check_read_again(make_schedule("twice", Collective::broadcast, 0, topology::host(3), 1, sends));
}

TEST_CASE("a sum that comes back to a rank that has it is exported and read again") {
  const std::vector<std::vector<Send>> routes{
      {{0, 2, 0, 0, SendKind::reduce},
       {0, 1, 0, 1, SendKind::reduce},
       {0, 0, 1, 2, SendKind::copy},
       {0, 1, 0, 3, SendKind::copy},
       {0, 0, 2, 4, SendKind::copy}},
      {{0, 2, 1, 0, SendKind::reduce},
       {0, 1, 0, 1, SendKind::reduce},
       {0, 0, 2, 2, SendKind::copy},
       {0, 2, 1, 3, SendKind::copy},
       {0, 1, 0, 4, SendKind::copy}},
  };
  for (const std::vector<Send>& sends : routes)
    check_read_again(make_schedule("back", Collective::allreduce, 0, topology::host(3), 1, sends));
}

TEST_CASE("what MSCCL cannot say is refused on export") {
  Schedule weighted = make_schedule("w", Collective::broadcast, 0, topology::host(2), 2,
                                    {{0, 0, 1, 0, SendKind::copy}, {1, 0, 1, 0, SendKind::copy}});
  weighted.weights = {1, 2};
  CHECK_THROWS_WITH(msccl_from_schedule(weighted), Catch::Contains("different sizes") && Catch::Contains("sccl plan"));
  CHECK_THROWS_WITH(msccl_from_schedule(chunk_by_chunk(10000)),
                    Catch::Contains("more than MSCCL has (256)") && Catch::Contains("sccl plan"));
  std::vector<Send> sends;
  for (Rank rank = 0; rank < 40; ++rank)
    for (Rank other = 0; other < 40; ++other)
      if (other != rank) sends.push_back({rank, rank, other, 0, SendKind::copy});
  CHECK_THROWS_WITH(msccl_from_schedule(make_schedule("wide", Collective::allgather, 0, topology::host(40), 1, sends)),
                    Catch::Contains("more peers than MSCCL has blocks for (64)") && Catch::Contains("sccl plan"));
}

TEST_CASE("each broken rule is refused with line, element and rule") {
  const std::string ring = ring_all_reduce(3);
  const std::string pairs = all_pairs_all_reduce(3);
  struct Mutation {
    std::string text;
    const char* message;
  };
  const Mutation mutations[] = {
      {"", "not XML"},
      {"<algo", "not XML"},
      {"<algo name=\"x\">\n</alg>", "line 2: not XML"},
      {"<plan/>", "outermost element must be <algo>"},
      {replaced(ring, "nchannels=\"1\" ", ""), "line 2, <algo>: attribute 'nchannels' is required"},
      {replaced(ring, "proto=\"Simple\"", "proto=\"Fast\""), "<algo>: proto=\"Fast\""},
      {replaced(ring, "coll=\"allreduce\"", "coll=\"custom\""), "coll=\"custom\" is not run here"},
      {replaced(ring, "nchunksperloop=\"3\"", "nchunksperloop=\"2\""), "line 3, <gpu>: has 3 chunks"},
      {replaced(ring, "ngpus=\"3\"", "ngpus=\"4\""), "ngpus=\"4\" but 3 gpus"},
      {replaced(ring, "ngpus=\"3\"", "ngpus=\"x\""), "ngpus=\"x\" must be a whole number"},
      {replaced(ring, "inplace=\"1\" outofplace=\"1\"", "inplace=\"0\" outofplace=\"0\""), "neither in place"},
      {replaced(ring, "<gpu id=\"1\"", "<gpu id=\"2\""), "<gpu>: gpus stand in order: id must be 1"},
      {replaced(ring, "<gpu id=\"1\"", "<cpu id=\"1\""), "not XML"},
      {replaced(ring, "<tb id=\"0\"", "<tb id=\"1\""), "line 4, <tb>: tbs are numbered"},
      {replaced(ring, "send=\"1\"", "send=\"0\""), "line 4, <tb>: gpu 0 may not be its own peer"},
      {replaced(ring, "send=\"1\"", "send=\"3\""), "send=\"3\" must be"},
      {replaced(ring, "chan=\"0\"", "chan=\"1\""), "chan=\"1\" where nchannels is 1"},
      {replaced(ring, "send=\"1\"", "send=\"-1\""), "line 5, <step>: type=\"s\" sends, but its tb has send=\"-1\""},
      {replaced(ring, "recv=\"2\"", "recv=\"-1\""), "line 6, <step>: type=\"rrs\" receives"},
      {replaced(ring, "step s=\"1\"", "step s=\"4\""), "line 6, <step>: steps are numbered"},
      {replaced(ring, "type=\"rrs\"", "type=\"zzz\""), "type=\"zzz\" is none of"},
      {replaced(ring, "srcbuf=\"i\"", "srcbuf=\"q\""), "srcbuf=\"q\" is none of"},
      {replaced(ring, "srcoff=\"0\"", "srcoff=\"3\""), "line 5, <step>: chunks 3..3 are not in buffer i, which has 3"},
      {replaced(ring, "cnt=\"1\"", "cnt=\"0\""), "cnt must be at least 1"},
      {replaced(ring, "cnt=\"1\"", "cnt=\"99\""), "must be a whole number of 0..71"},
      {replaced(ring, "depid=\"-1\"", "depid=\"0\""), "either both -1 or neither"},
      {replaced(ring, "depid=\"-1\" deps=\"-1\"", "depid=\"5\" deps=\"0\""), "names no step of this gpu"},
      {replaced(pairs, "hasdep=\"1\"", "hasdep=\"0\""), "it would wait for ever"},
      {replaced(ring, "<step s=\"1\"", "<stop/><step s=\"1\""), "<stop>: only <step> may stand in <tb>"},
      {replaced(pairs, "send=\"2\" recv=\"2\"", "send=\"1\" recv=\"2\""), "another tb of this gpu sends to gpu 1"},
      // Files that keep every rule of form and are wrong all the same.
      {replaced(ring, "cnt=\"1\"", "cnt=\"2\""), "receives cnt=\"1\", but line 5 sends 2"},
      {replaced(ring, "srcbuf=\"i\" srcoff=\"0\"", "srcbuf=\"i\" srcoff=\"1\""), "adds chunk"},
      {replaced(ring, "type=\"rrcs\"", "type=\"rcs\""), "chunk 1 of its output does not end"},
      {replaced(pairs, "type=\"re\"", "type=\"nop\""), "does not end as allreduce defines"},
      {replaced(pairs, "srcbuf=\"s\" srcoff=\"0\"", "srcbuf=\"s\" srcoff=\"1\""), "MSCCL XML line"},
      {replaced(direct_all_gather(3), "type=\"cpy\" srcbuf=\"i\"", "type=\"cpy\" srcbuf=\"o\""),
       "where nothing was written"},
      {replaced(direct_all_gather(3), "type=\"r\"", "type=\"rrc\""), "allgather does not reduce"},
  };
  for (const Mutation& mutation : mutations) {
    INFO(mutation.message);
    CHECK_THAT(refusal(mutation.text), Catch::Contains(mutation.message));
  }
}

TEST_CASE("blocks that wait for one another are named") {
  const std::string first =
      gpu(0, 1, 1, 0, block(0, 1, 1, 0, step(0, "r", "i", 0, "o", 0) + step(1, "s", "i", 0, "o", 0)));
  const std::string second =
      gpu(1, 1, 1, 0, block(0, 0, 0, 0, step(0, "r", "i", 0, "o", 0) + step(1, "s", "i", 0, "o", 0)));
  CHECK_THAT(refusal(algo("allreduce", 2, 1, kOutOfPlace, first + second)), Catch::Contains("waits for ever"));
}

TEST_CASE("two blocks that race for a place are found out") {
  // The copy to the output may come before or after the addition into the input.
  const auto one = [](int rank, int peer) {
    return gpu(rank, 1, 1, 0,
               block(0, peer, peer, 0, step(0, "s", "i", 0, "i", 0) + step(1, "rrc", "i", 0, "i", 0)) +
                   block(1, -1, -1, 0, step(0, "cpy", "i", 0, "o", 0)));
  };
  CHECK_THAT(refusal(algo("allreduce", 2, 1, kOutOfPlace, one(0, 1) + one(1, 0))), Catch::Contains("does not end as"));
}

TEST_CASE("damaged XML is refused, never fatal") {
  const std::string text = ring_all_reduce(3);
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = text;
    for (int i = 0; i < 2; ++i)
      damaged[random() % damaged.size()] = static_cast<char>("0123456789-<>\"/= ioscr"[random() % 22]);
    if (!refusal(damaged).empty()) ++refused;
  }
  CHECK(refused > 1000);
}
