#include "collective_case.h"

#include <algorithm>
#include <cstdlib>
#include <span>

namespace api_test {
namespace {

constexpr std::size_t kGuard = 8;  // elements before and after every buffer
constexpr unsigned char kGuardByte = 0xa5;

double premul_factor(int rank) { return rank % 2 == 0 ? 2.0 : 1.0; }

// The element at `index` of rank's whole input.
double input(const Case& test, int rank, std::size_t index) {
  const std::uint64_t hash = (index * 2654435761u + static_cast<std::uint64_t>(rank) * 40503u + 12345u) >> 7;
  if (test.kind->reduces && test.op == Op::prod) return 1.0 + static_cast<double>(hash % 2);
  // Sums must stay below 2^(mantissa bits + 1), beyond which not every integer has a representation.
  const bool coarse = test.type->floating && test.type->mantissa_bits < 3;
  if (test.kind->reduces && test.op == Op::premul) return coarse && rank > 3 ? 0.0 : static_cast<double>(hash % 2);
  return static_cast<double>(hash % (coarse ? 2 : 3));
}

double reduced(const Case& test, int ranks, std::size_t index) {
  double result = input(test, 0, index) * (test.op == Op::premul ? premul_factor(0) : 1.0);
  for (int rank = 1; rank < ranks; ++rank) {
    const double value = input(test, rank, index);
    switch (test.op) {
      case Op::prod:
        result *= value;
        break;
      case Op::max:
        result = std::max(result, value);
        break;
      case Op::min:
        result = std::min(result, value);
        break;
      case Op::premul:
        result += value * premul_factor(rank);
        break;
      default:
        result += value;
        break;
    }
  }
  if (test.op == Op::avg) {
    result /= ranks;
    if (!test.type->floating) result = std::floor(result);
  }
  return test.type->floating ? result : wrap(*test.type, result);
}

struct Shape {
  std::size_t send = 0;
  std::size_t recv = 0;
};

Shape shape(const Case& test, int rank, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  const bool root = rank == test.root;
  switch (test.kind->kind) {
    case Kind::allreduce:
      return {test.count, test.count};
    case Kind::reduce:
      return {test.count, root ? test.count : 0};
    case Kind::broadcast:
      return {root ? test.count : 0, test.count};
    case Kind::reducescatter:
      return {n * test.count, test.count};
    case Kind::allgather:
      return {test.count, n * test.count};
    case Kind::alltoall:
      return {n * test.count, n * test.count};
    case Kind::gather:
      return {test.count, root ? n * test.count : 0};
    case Kind::scatter:
      return {root ? n * test.count : 0, test.count};
  }
  return {};
}

double expected(const Case& test, int rank, int ranks, std::size_t index) {
  const auto block = test.count == 0 ? 0 : static_cast<int>(index / test.count);
  const std::size_t within = test.count == 0 ? 0 : index % test.count;
  const std::size_t mine = static_cast<std::size_t>(rank) * test.count;
  switch (test.kind->kind) {
    case Kind::allreduce:
    case Kind::reduce:
      return reduced(test, ranks, index);
    case Kind::broadcast:
      return input(test, test.root, index);
    case Kind::reducescatter:
      return reduced(test, ranks, mine + index);
    case Kind::allgather:
    case Kind::gather:
      return input(test, block, within);
    case Kind::alltoall:
      return input(test, block, mine + within);
    case Kind::scatter:
      return input(test, test.root, mine + index);
  }
  return 0;
}

// Where the output lies in the input buffer, or the input in the output buffer, of an in-place call.
std::size_t in_place_shift(const Case& test, int rank) {
  const std::size_t mine = static_cast<std::size_t>(rank) * test.count;
  switch (test.kind->kind) {
    case Kind::reducescatter:
    case Kind::allgather:
    case Kind::gather:
    case Kind::scatter:
      return mine;
    default:
      return 0;
  }
}

class Buffer {
 public:
  Buffer(const TypeInfo& type, std::size_t elements, std::size_t offset)
      : type_(type), elements_(elements), begin_((kGuard + offset) * type.bytes) {
    const std::size_t bytes = begin_ + (elements + kGuard) * type.bytes;
    void* const memory = case_memory().allocate != nullptr ? case_memory().allocate(bytes) : std::malloc(bytes);
    bytes_ = {static_cast<std::byte*>(memory), bytes};
    std::fill(bytes_.begin(), bytes_.end(), std::byte{kGuardByte});
  }
  ~Buffer() { (case_memory().release != nullptr ? case_memory().release : std::free)(bytes_.data()); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() { return bytes_.data() + begin_; }
  bool guards_intact() const {
    const std::size_t end = begin_ + elements_ * type_.bytes;
    for (std::size_t i = 0; i < bytes_.size(); ++i)
      if ((i < begin_ || i >= end) && bytes_[i] != std::byte{kGuardByte}) return false;
    return true;
  }

 private:
  const TypeInfo& type_;
  std::size_t elements_;
  std::size_t begin_;
  std::span<std::byte> bytes_;
};

ncclResult_t call(const Case& test, const void* send, void* recv, ncclRedOp_t op, ncclComm_t comm) {
  const ncclDataType_t type = test.type->type;
  switch (test.kind->kind) {
    case Kind::allreduce:
      return ncclAllReduce(send, recv, test.count, type, op, comm, case_stream().stream);
    case Kind::reduce:
      return ncclReduce(send, recv, test.count, type, op, test.root, comm, case_stream().stream);
    case Kind::broadcast:
      return ncclBroadcast(send, recv, test.count, type, test.root, comm, case_stream().stream);
    case Kind::reducescatter:
      return ncclReduceScatter(send, recv, test.count, type, op, comm, case_stream().stream);
    case Kind::allgather:
      return ncclAllGather(send, recv, test.count, type, comm, case_stream().stream);
    case Kind::alltoall:
      return ncclAlltoAll(send, recv, test.count, type, comm, case_stream().stream);
    case Kind::gather:
      return ncclGather(send, recv, test.count, type, test.root, comm, case_stream().stream);
    case Kind::scatter:
      return ncclScatter(send, recv, test.count, type, test.root, comm, case_stream().stream);
  }
  return ncclInternalError;
}

// Averages and scaled sums are rounded at every rank's contribution.
double tolerance(const Case& test, int ranks, double value) {
  if (!test.type->floating || test.op != Op::avg || !test.kind->reduces) return 0;
  return std::ldexp(std::fabs(value) + 1, -test.type->mantissa_bits) * ranks;
}

std::string compare(const Case& test, int rank, int ranks, std::size_t elements, const std::byte* output) {
  for (std::size_t i = 0; i < elements; ++i) {
    const double wanted = expected(test, rank, ranks, i);
    const double got = load(*test.type, output, i);
    if (!(std::fabs(got - wanted) <= tolerance(test, ranks, wanted)))
      return test.text() + ": element " + std::to_string(i) + " is " + std::to_string(got) + " instead of " +
             std::to_string(wanted);
  }
  return "";
}

std::string error_text(const Case& test, ncclResult_t result) {
  return test.text() + ": " + ncclGetErrorString(result) + ": " + ncclGetLastError(nullptr);
}

ncclResult_t make_op(const Case& test, int rank, ncclComm_t comm, ncclRedOp_t& op) {
  if (test.op != Op::premul) {
    op = static_cast<ncclRedOp_t>(static_cast<int>(test.op));
    return ncclSuccess;
  }
  std::byte scalar[8];
  store(*test.type, scalar, 0, premul_factor(rank));
  return ncclRedOpCreatePreMulSum(&op, scalar, test.type->type, ncclScalarHostImmediate, comm);
}

}  // namespace

CaseStream& case_stream() {
  thread_local CaseStream mine;
  return mine;
}

CaseMemory& case_memory() {
  thread_local CaseMemory mine;
  return mine;
}

const std::vector<KindInfo>& kinds() {
  static const std::vector<KindInfo> all{
      {Kind::allreduce, "AllReduce", true, false, true},
      {Kind::reduce, "Reduce", true, true, true},
      {Kind::reducescatter, "ReduceScatter", true, false, true},
      {Kind::allgather, "AllGather", false, false, true},
      {Kind::broadcast, "Broadcast", false, true, true},
      {Kind::alltoall, "AlltoAll", false, false, false},
      {Kind::gather, "Gather", false, true, true},
      {Kind::scatter, "Scatter", false, true, true},
  };
  return all;
}

std::string Case::text() const {
  static const char* const op_names[] = {"sum", "prod", "max", "min", "avg", "premul"};
  return std::string(kind->name) + " " + type->name + " " + op_names[static_cast<int>(op)] + " count " +
         std::to_string(count) + (in_place ? " in place" : "") + " offset " + std::to_string(offset) + " root " +
         std::to_string(root);
}

std::string run_case(const Case& test, int rank, int ranks, ncclComm_t comm) {
  const Shape sizes = shape(test, rank, ranks);
  const bool shared = test.in_place && (sizes.send > 0 || sizes.recv > 0) && (!test.kind->rooted || rank == test.root);
  Buffer first(*test.type, shared ? std::max(sizes.send, sizes.recv) : sizes.send, test.offset);
  Buffer second(*test.type, shared ? 0 : sizes.recv, test.offset);
  std::byte* send = first.data();
  std::byte* recv = second.data();
  if (shared) {
    const std::size_t shift = in_place_shift(test, rank) * test.type->bytes;
    send = first.data() + (sizes.send < sizes.recv ? shift : 0);
    recv = first.data() + (sizes.recv < sizes.send ? shift : 0);
  }
  for (std::size_t i = 0; i < sizes.send; ++i) store(*test.type, send, i, input(test, rank, i));

  ncclRedOp_t op = ncclSum;
  if (test.kind->reduces)
    if (const ncclResult_t made = make_op(test, rank, comm, op); made != ncclSuccess) return error_text(test, made);
  const ncclResult_t result = call(test, sizes.send > 0 ? send : nullptr, sizes.recv > 0 ? recv : nullptr, op, comm);
  if (result != ncclSuccess) return error_text(test, result);
  if (test.kind->reduces && test.op == Op::premul)
    if (const ncclResult_t ended = ncclRedOpDestroy(op, comm); ended != ncclSuccess) return error_text(test, ended);

  if (case_stream().finish != nullptr) case_stream().finish(case_stream().stream);
  if (std::string difference = compare(test, rank, ranks, sizes.recv, recv); !difference.empty()) return difference;
  if (!shared)
    for (std::size_t i = 0; i < sizes.send; ++i)
      if (load(*test.type, send, i) != input(test, rank, i)) return test.text() + ": the input was changed";
  if (!first.guards_intact() || !second.guards_intact()) return test.text() + ": wrote outside its buffer";
  return "";
}

}  // namespace api_test
