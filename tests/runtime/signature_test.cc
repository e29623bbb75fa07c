// Messages of calls that differ in anything carry different signatures.
#include "runtime/call/signature.h"

#include <catch2/catch.hpp>
#include <functional>
#include <set>

using namespace sccl;
using namespace sccl::runtime;

namespace {

struct Change {
  const char* field;
  std::function<void(CallSignature&)> apply;
};

const Change kChanges[] = {
    {"sequence", [](CallSignature& call) { ++call.sequence; }},
    {"collective", [](CallSignature& call) { call.collective = Collective::broadcast; }},
    {"count", [](CallSignature& call) { ++call.count; }},
    {"count beyond 32 bits", [](CallSignature& call) { call.count += std::uint64_t{1} << 40; }},
    {"type", [](CallSignature& call) { call.type = DataType::int32; }},
    {"op", [](CallSignature& call) { call.op = ReduceOp::max; }},
    {"root", [](CallSignature& call) { call.root = 2; }},
    {"input window", [](CallSignature& call) { call.input_window = 3; }},
    {"output window", [](CallSignature& call) { call.output_window = 3; }},
    {"options", [](CallSignature& call) { call.options = 3; }},
};

constexpr CallSignature kCall{7, Collective::reduce, 4096, DataType::float32, ReduceOp::sum, 1, 0, 0};

}  // namespace

TEST_CASE("every field of a call changes the signature of its messages") {
  std::set<std::uint32_t> hashes{kCall.hash()};
  for (const Change& change : kChanges) {
    INFO(change.field);
    CallSignature changed = kCall;
    change.apply(changed);
    CHECK_FALSE(changed == kCall);
    CHECK(hashes.insert(changed.hash()).second);
  }
}

TEST_CASE("calls that are equal have equal signatures, whoever makes them") {
  const CallSignature again = kCall;
  CHECK(again.hash() == kCall.hash());
  CHECK(CallSignature::hash(kCall.sequence, kCall.call_hash()) == kCall.hash());
}

TEST_CASE("roots, operations and types are told apart in every combination") {
  std::set<std::uint32_t> hashes;
  std::size_t calls = 0;
  for (const Rank root : {0, 1, 2, 127})
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min, ReduceOp::avg})
      for (const DataType type : {DataType::int8, DataType::float32, DataType::float64, DataType::bfloat16}) {
        CallSignature call = kCall;
        call.root = root;
        call.op = op;
        call.type = type;
        hashes.insert(call.hash());
        ++calls;
      }
  CHECK(hashes.size() == calls);
}
