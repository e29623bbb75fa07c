#include "schedule/msccl/msccl_xml.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <pugixml.hpp>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/settings/printable.h"

namespace sccl::schedule {
namespace {

constexpr std::array<MscclOpInfo, 9> kOps{{
    {"s", true, false, true, false},
    {"r", false, true, false, true},
    {"rcs", true, true, false, true},
    {"rrs", true, true, true, false},
    {"rrc", false, true, true, true},
    {"rrcs", true, true, true, true},
    {"cpy", false, false, true, true},
    {"re", false, false, true, true},
    {"nop", false, false, false, false},
}};
constexpr std::array<std::string_view, 3> kBuffers{"i", "o", "s"};

// RCCL's and MSCCL's limits.
constexpr int kMostBlocks = 64;
constexpr int kMostSteps = 256;
constexpr int kMostCount = 71;
constexpr int kMostChannels = 64;
constexpr int kMostPeersOfChannel = 32;
// This library's limits: a larger file is hostile.
constexpr int kMostGpus = 1024;
constexpr int kMostChunks = 1 << 16;

// Access to elements and attributes; errors name the line.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {
    for (std::size_t at = 0; at < text.size(); ++at)
      if (text[at] == '\n') line_ends_.push_back(at);
  }

  int line_at(std::ptrdiff_t offset) const {
    const auto found = std::lower_bound(line_ends_.begin(), line_ends_.end(),
                                        static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, offset)));
    return static_cast<int>(found - line_ends_.begin()) + 1;
  }
  int line(const pugi::xml_node& node) const { return line_at(node.offset_debug()); }

  template <typename... Args>
  [[noreturn]] void refuse(const pugi::xml_node& node, fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::invalid_argument, "MSCCL XML line {}, <{}>: {}", line(node), node.name(),
         fmt::format(format, std::forward<Args>(args)...));
  }

  std::string text(const pugi::xml_node& node, const char* name) const {
    const pugi::xml_attribute attribute = node.attribute(name);
    if (!attribute) refuse(node, "attribute '{}' is required", name);
    return attribute.value();
  }

  std::int64_t number(const pugi::xml_node& node, const char* name, std::int64_t least, std::int64_t most) const {
    const std::string value = text(node, name);
    std::int64_t result = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error != std::errc{} || end != value.data() + value.size() || result < least || result > most)
      refuse(node, "{}=\"{}\" must be a whole number of {}..{}", name, value, least, most);
    return result;
  }
  std::int64_t number_or(const pugi::xml_node& node, const char* name, std::int64_t other, std::int64_t most) const {
    return node.attribute(name) ? number(node, name, 0, most) : other;
  }
  int small(const pugi::xml_node& node, const char* name, int least, int most) const {
    return static_cast<int>(number(node, name, least, most));
  }

  // Checks that all children are elements of one kind; comments are allowed.
  void only_children(const pugi::xml_node& node, std::string_view name) const {
    for (const pugi::xml_node child : node.children())
      if (child.type() == pugi::node_element && child.name() != name)
        refuse(child, "only <{}> may stand in <{}>", name, node.name());
  }

 private:
  std::string_view text_;
  std::vector<std::size_t> line_ends_;
};

MscclOp op_of(const Reader& reader, const pugi::xml_node& node) {
  const std::string type = reader.text(node, "type");
  for (std::size_t op = 0; op < kOps.size(); ++op)
    if (kOps[op].name == type) return static_cast<MscclOp>(op);
  reader.refuse(node, "type=\"{}\" is none of s, r, rcs, rrs, rrc, rrcs, cpy, re, nop", type);
}

MscclPlace place_of(const Reader& reader, const pugi::xml_node& node, const char* buffer, const char* offset) {
  const std::string name = reader.text(node, buffer);
  for (std::size_t index = 0; index < kBuffers.size(); ++index)
    if (kBuffers[index] == name) return {static_cast<MscclBuffer>(index), reader.small(node, offset, -1, kMostChunks)};
  reader.refuse(node, "{}=\"{}\" is none of i, o, s", buffer, name);
}

void check_place(const Reader& reader, const pugi::xml_node& node, const MscclGpu& gpu, const MscclPlace& place,
                 int count) {
  const int sizes[] = {gpu.input_chunks, gpu.output_chunks, gpu.scratch_chunks};
  const int size = sizes[static_cast<std::size_t>(place.buffer)];
  if (place.offset < 0 || place.offset + count > size)
    reader.refuse(node, "chunks {}..{} are not in buffer {}, which has {}", place.offset, place.offset + count - 1,
                  kBuffers[static_cast<std::size_t>(place.buffer)], size);
}

MscclStep step_of(const Reader& reader, const pugi::xml_node& node, const MscclGpu& gpu, const MscclBlock& block) {
  MscclStep step;
  step.line = reader.line(node);
  step.op = op_of(reader, node);
  step.src = place_of(reader, node, "srcbuf", "srcoff");
  step.dst = place_of(reader, node, "dstbuf", "dstoff");
  step.count = reader.small(node, "cnt", 0, kMostCount);
  step.awaited_block = reader.small(node, "depid", -1, kMostBlocks - 1);
  step.awaited_step = reader.small(node, "deps", -1, kMostSteps - 1);
  step.awaited = reader.small(node, "hasdep", 0, 1) != 0;
  const MscclOpInfo& op = info(step.op);
  if (step.op == MscclOp::nop) return step;
  if (step.count == 0) reader.refuse(node, "type=\"{}\" moves no chunk: cnt must be at least 1", op.name);
  if (op.sends && block.send_peer < 0) reader.refuse(node, "type=\"{}\" sends, but its tb has send=\"-1\"", op.name);
  if (op.receives && block.recv_peer < 0)
    reader.refuse(node, "type=\"{}\" receives, but its tb has recv=\"-1\"", op.name);
  if (op.reads) check_place(reader, node, gpu, step.src, step.count);
  if (op.writes) check_place(reader, node, gpu, step.dst, step.count);
  return step;
}

MscclBlock block_of(const Reader& reader, const pugi::xml_node& node, const MscclGpu& gpu, int rank, int ranks) {
  MscclBlock block;
  block.line = reader.line(node);
  block.send_peer = reader.small(node, "send", -1, ranks - 1);
  block.recv_peer = reader.small(node, "recv", -1, ranks - 1);
  block.channel = reader.small(node, "chan", 0, kMostChannels - 1);
  if (block.send_peer == rank || block.recv_peer == rank) reader.refuse(node, "gpu {} may not be its own peer", rank);
  reader.only_children(node, "step");
  for (const pugi::xml_node child : node.children("step")) {
    const int index = static_cast<int>(block.steps.size());
    if (index == kMostSteps) reader.refuse(child, "a tb has at most {} steps", kMostSteps);
    if (reader.small(child, "s", 0, kMostSteps - 1) != index)
      reader.refuse(child, "steps are numbered from 0 in order: s must be {}", index);
    block.steps.push_back(step_of(reader, child, gpu, block));
  }
  return block;
}

void check_dependencies(const Reader& reader, const pugi::xml_node& node, const MscclGpu& gpu) {
  std::size_t block_index = 0;
  for (const pugi::xml_node block : node.children("tb")) {
    std::size_t step_index = 0;
    for (const pugi::xml_node child : block.children("step")) {
      const MscclStep& step = gpu.blocks[block_index].steps[step_index++];
      if ((step.awaited_block < 0) != (step.awaited_step < 0))
        reader.refuse(child, "depid and deps are either both -1 or neither");
      if (step.awaited_block < 0) continue;
      if (step.awaited_block >= static_cast<int>(gpu.blocks.size()) ||
          step.awaited_step >= static_cast<int>(gpu.blocks[static_cast<std::size_t>(step.awaited_block)].steps.size()))
        reader.refuse(child, "depid=\"{}\" deps=\"{}\" names no step of this gpu", step.awaited_block,
                      step.awaited_step);
      // A block publishes its progress only at steps with hasdep.
      const auto& awaited = gpu.blocks[static_cast<std::size_t>(step.awaited_block)].steps;
      if (std::none_of(awaited.begin() + step.awaited_step, awaited.end(),
                       [](const MscclStep& one) { return one.awaited; }))
        reader.refuse(child, "waits for step {} of tb {}, which has hasdep=\"0\": it would wait for ever",
                      step.awaited_step, step.awaited_block);
    }
    ++block_index;
  }
}

// Messages of one sender, receiver and channel must have one order: one block at each end.
void check_connections(const Reader& reader, const pugi::xml_node& node, const MscclGpu& gpu) {
  std::set<std::tuple<bool, int, int>> used;
  std::vector<std::array<int, 2>> peers(kMostChannels);
  std::size_t index = 0;
  for (const pugi::xml_node child : node.children("tb")) {
    const MscclBlock& block = gpu.blocks[index++];
    for (const bool sends : {true, false}) {
      const int peer = sends ? block.send_peer : block.recv_peer;
      if (peer < 0) continue;
      if (!used.emplace(sends, peer, block.channel).second)
        reader.refuse(child, "another tb of this gpu {} gpu {} on channel {} already",
                      sends ? "sends to" : "receives from", peer, block.channel);
      if (++peers[static_cast<std::size_t>(block.channel)][sends ? 0 : 1] > kMostPeersOfChannel)
        reader.refuse(child, "channel {} has more than {} {} tbs", block.channel, kMostPeersOfChannel,
                      sends ? "sending" : "receiving");
    }
  }
}

MscclGpu gpu_of(const Reader& reader, const pugi::xml_node& node, int rank, int ranks) {
  MscclGpu gpu;
  gpu.line = reader.line(node);
  if (reader.small(node, "id", 0, kMostGpus - 1) != rank)
    reader.refuse(node, "gpus stand in order: id must be {}", rank);
  gpu.input_chunks = reader.small(node, "i_chunks", 0, kMostChunks);
  gpu.output_chunks = reader.small(node, "o_chunks", 0, kMostChunks);
  gpu.scratch_chunks = reader.small(node, "s_chunks", 0, kMostChunks);
  reader.only_children(node, "tb");
  for (const pugi::xml_node child : node.children("tb")) {
    const int index = static_cast<int>(gpu.blocks.size());
    if (index == kMostBlocks) reader.refuse(child, "a gpu has at most {} tbs", kMostBlocks);
    if (reader.small(child, "id", 0, kMostBlocks - 1) != index)
      reader.refuse(child, "tbs are numbered from 0 in order: id must be {}", index);
    gpu.blocks.push_back(block_of(reader, child, gpu, rank, ranks));
  }
  check_connections(reader, node, gpu);
  check_dependencies(reader, node, gpu);
  return gpu;
}

MscclAlgo algo_of(const Reader& reader, const pugi::xml_node& node) {
  MscclAlgo algo;
  algo.line = reader.line(node);
  algo.name = printable(reader.text(node, "name"));
  algo.protocol = reader.text(node, "proto");
  algo.collective = reader.text(node, "coll");
  if (algo.protocol != "Simple" && algo.protocol != "LL" && algo.protocol != "LL128")
    reader.refuse(node, "proto=\"{}\" is none of Simple, LL, LL128", algo.protocol);
  algo.channels = reader.small(node, "nchannels", 1, kMostChannels);
  algo.chunks_per_loop = reader.small(node, "nchunksperloop", 1, kMostChunks);
  algo.in_place = reader.small(node, "inplace", 0, 1) != 0;
  algo.out_of_place = reader.number_or(node, "outofplace", algo.in_place ? 0 : 1, 1) != 0;
  algo.min_bytes = reader.number_or(node, "minBytes", 0, std::numeric_limits<std::int64_t>::max());
  algo.max_bytes = reader.number_or(node, "maxBytes", 0, std::numeric_limits<std::int64_t>::max());
  if (!algo.in_place && !algo.out_of_place) reader.refuse(node, "serves neither in place nor out of place");
  const int ranks = reader.small(node, "ngpus", 1, kMostGpus);
  reader.only_children(node, "gpu");
  for (const pugi::xml_node child : node.children("gpu")) {
    if (static_cast<int>(algo.gpus.size()) == ranks) reader.refuse(child, "ngpus=\"{}\" and more gpus", ranks);
    algo.gpus.push_back(gpu_of(reader, child, static_cast<int>(algo.gpus.size()), ranks));
    const MscclGpu& gpu = algo.gpus.back();
    if (std::max(gpu.input_chunks, gpu.output_chunks) > algo.chunks_per_loop)
      reader.refuse(child, "has {} chunks where nchunksperloop is {}", std::max(gpu.input_chunks, gpu.output_chunks),
                    algo.chunks_per_loop);
    for (const MscclBlock& block : gpu.blocks)
      if (block.channel >= algo.channels)
        fail(ErrorCode::invalid_argument, "MSCCL XML line {}, <tb>: chan=\"{}\" where nchannels is {}", block.line,
             block.channel, algo.channels);
  }
  if (static_cast<int>(algo.gpus.size()) != ranks)
    reader.refuse(node, "ngpus=\"{}\" but {} gpus", ranks, algo.gpus.size());
  return algo;
}

void append_step(std::string& text, int index, const MscclStep& step) {
  text += fmt::format(
      "      <step s=\"{}\" type=\"{}\" srcbuf=\"{}\" srcoff=\"{}\" dstbuf=\"{}\" dstoff=\"{}\" cnt=\"{}\" "
      "depid=\"{}\" "
      "deps=\"{}\" hasdep=\"{}\"/>\n",
      index, info(step.op).name, kBuffers[static_cast<std::size_t>(step.src.buffer)], step.src.offset,
      kBuffers[static_cast<std::size_t>(step.dst.buffer)], step.dst.offset, step.count, step.awaited_block,
      step.awaited_step, step.awaited ? 1 : 0);
}

// Names become attribute values; strict parsers read these up to the next quote.
std::string plain(const std::string& name) {
  std::string result;
  for (const char letter : name)
    result +=
        std::string_view("<>&\"'").find(letter) != std::string_view::npos || static_cast<unsigned char>(letter) < 32
            ? '_'
            : letter;
  return result.substr(0, 200);
}

}  // namespace

const MscclOpInfo& info(MscclOp op) { return kOps[static_cast<std::size_t>(op)]; }

MscclAlgo msccl_from_xml(std::string_view text) {
  const Reader reader(text);
  pugi::xml_document document;
  const pugi::xml_parse_result parsed =
      document.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!parsed)
    fail(ErrorCode::invalid_argument, "MSCCL XML line {}: not XML: {}", reader.line_at(parsed.offset),
         parsed.description());
  const pugi::xml_node root = document.document_element();
  if (std::string_view(root.name()) != "algo") reader.refuse(root, "the outermost element must be <algo>");
  return algo_of(reader, root);
}

std::string to_xml(const MscclAlgo& algo) {
  std::string text = fmt::format(
      "<algo name=\"{}\" proto=\"{}\" nchannels=\"{}\" nchunksperloop=\"{}\" ngpus=\"{}\" coll=\"{}\" inplace=\"{}\" "
      "outofplace=\"{}\" minBytes=\"{}\" maxBytes=\"{}\">\n",
      plain(algo.name), algo.protocol, algo.channels, algo.chunks_per_loop, algo.gpus.size(), algo.collective,
      algo.in_place ? 1 : 0, algo.out_of_place ? 1 : 0, algo.min_bytes, algo.max_bytes);
  for (std::size_t rank = 0; rank < algo.gpus.size(); ++rank) {
    const MscclGpu& gpu = algo.gpus[rank];
    text += fmt::format("  <gpu id=\"{}\" i_chunks=\"{}\" o_chunks=\"{}\" s_chunks=\"{}\">\n", rank, gpu.input_chunks,
                        gpu.output_chunks, gpu.scratch_chunks);
    for (std::size_t index = 0; index < gpu.blocks.size(); ++index) {
      const MscclBlock& block = gpu.blocks[index];
      text += fmt::format("    <tb id=\"{}\" send=\"{}\" recv=\"{}\" chan=\"{}\">\n", index, block.send_peer,
                          block.recv_peer, block.channel);
      for (std::size_t step = 0; step < block.steps.size(); ++step)
        append_step(text, static_cast<int>(step), block.steps[step]);
      text += "    </tb>\n";
    }
    text += "  </gpu>\n";
  }
  return text + "</algo>\n";
}

}  // namespace sccl::schedule
