#include "tools/perf_rank.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "tools/element.h"

namespace sccl::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRoot = 0;

void require(ncclResult_t result, const char* call) {
  if (result != ncclSuccess) throw std::runtime_error(std::string(call) + ": " + ncclGetLastError(nullptr));
}

// Small integers: sums, products and extremes of them are exact in every type.
double input_value(const Row& row, bool reduces, int rank, std::size_t index) {
  const std::size_t mixed = (index * 31 + static_cast<std::size_t>(rank) * 7) >> 2;
  if (reduces && row.op == ReduceOp::prod) return 1.0 + static_cast<double>(mixed % 2);
  if (reduces) return static_cast<double>(rank < 4 ? mixed % 2 : 0);
  return static_cast<double>(mixed % 4);
}

double scale_of(int rank) { return rank % 2 == 0 ? 2.0 : 1.0; }

double reduced_value(const Row& row, int ranks, std::size_t index) {
  const auto value = [&](int rank) {
    return input_value(row, true, rank, index) * (row.op == ReduceOp::premul_sum ? scale_of(rank) : 1.0);
  };
  double result = value(0);
  for (int rank = 1; rank < ranks; ++rank) {
    const double next = value(rank);
    switch (row.op) {
      case ReduceOp::prod: result *= next; break;
      case ReduceOp::max: result = std::max(result, next); break;
      case ReduceOp::min: result = std::min(result, next); break;
      default: result += next; break;
    }
  }
  if (row.op != ReduceOp::avg) return result;
  return info(row.type).floating ? result / ranks : std::floor(result / ranks);
}

class RankRun {
 public:
  RankRun(const PerfOptions& options, int rank, ncclComm_t comm) : options_(options), rank_(rank), comm_(comm) {}

  Measurement measure(const Row& row) {
    Measurement result;
    const int places = options_.collective->has_in_place ? 2 : 1;
    prepare_op(row);
    for (int place = 0; place < places; ++place) {
      prepare_buffers(row, place == 1);
      for (int i = 0; i < options_.warmup; ++i) call(row);
      synchronize();
      const auto begin = Clock::now();
      for (int i = 0; i < options_.iterations; ++i) call(row);
      result.us[place] = std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / options_.iterations;
      if (options_.check) {
        prepare_buffers(row, place == 1);
        synchronize();
        call(row);
        result.wrong[place] = count_wrong(row);
      }
    }
    if (row.op == ReduceOp::premul_sum) require(ncclRedOpDestroy(op_, comm_), "ncclRedOpDestroy");
    return result;
  }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(options_.ranks); }
  Collective kind() const { return options_.collective->collective; }
  bool is_root() const { return rank_ == kRoot; }

  std::size_t send_elements(const Row& row) const {
    const bool all = kind() == Collective::reducescatter || kind() == Collective::alltoall ||
                     (kind() == Collective::scatter && is_root());
    return all ? row.count * ranks() : row.count;
  }
  std::size_t recv_elements(const Row& row) const {
    const bool all = kind() == Collective::allgather || kind() == Collective::alltoall ||
                     (kind() == Collective::gather && is_root());
    return all ? row.count * ranks() : row.count;
  }

  void prepare_op(const Row& row) {
    op_ = static_cast<ncclRedOp_t>(static_cast<int>(row.op));
    if (row.op != ReduceOp::premul_sum) return;
    std::byte scalar[8];
    store_element(row.type, scalar, 0, scale_of(rank_));
    require(ncclRedOpCreatePreMulSum(&op_, scalar, nccl_type(row), ncclScalarHostImmediate, comm_),
            "ncclRedOpCreatePreMulSum");
  }

  static ncclDataType_t nccl_type(const Row& row) { return static_cast<ncclDataType_t>(static_cast<int>(row.type)); }

  void prepare_buffers(const Row& row, bool in_place) {
    const std::size_t element = size_bytes(row.type);
    const std::size_t send = send_elements(row);
    const std::size_t recv = recv_elements(row);
    first_.assign((in_place ? std::max(send, recv) : send) * element + 1, std::byte{0});
    second_.assign(in_place ? 1 : recv * element + 1, std::byte{0xff});
    send_ = first_.data();
    recv_ = second_.data();
    if (in_place) {
      const std::size_t shift = static_cast<std::size_t>(rank_) * row.count * element;
      send_ = first_.data() + (send < recv ? shift : 0);
      recv_ = first_.data() + (recv < send ? shift : 0);
    }
    for (std::size_t i = 0; i < send; ++i)
      store_element(row.type, send_, i, input_value(row, options_.collective->reduces, rank_, i));
  }

  void call(const Row& row) {
    const ncclDataType_t type = nccl_type(row);
    switch (kind()) {
      case Collective::allreduce:
        return require(ncclAllReduce(send_, recv_, row.count, type, op_, comm_, nullptr), "ncclAllReduce");
      case Collective::allgather:
        return require(ncclAllGather(send_, recv_, row.count, type, comm_, nullptr), "ncclAllGather");
      case Collective::reducescatter:
        return require(ncclReduceScatter(send_, recv_, row.count, type, op_, comm_, nullptr), "ncclReduceScatter");
      case Collective::broadcast:
        return require(ncclBroadcast(send_, recv_, row.count, type, kRoot, comm_, nullptr), "ncclBroadcast");
      case Collective::reduce:
        return require(ncclReduce(send_, recv_, row.count, type, op_, kRoot, comm_, nullptr), "ncclReduce");
      case Collective::alltoall:
        return require(ncclAlltoAll(send_, recv_, row.count, type, comm_, nullptr), "ncclAlltoAll");
      case Collective::gather:
        return require(ncclGather(send_, recv_, row.count, type, kRoot, comm_, nullptr), "ncclGather");
      case Collective::scatter:
        return require(ncclScatter(send_, recv_, row.count, type, kRoot, comm_, nullptr), "ncclScatter");
      case Collective::sendrecv: return send_and_receive(row);
    }
  }

  // To the next rank of a ring, from the one before, as nccl-tests does.
  void send_and_receive(const Row& row) {
    const int next = (rank_ + 1) % options_.ranks;
    const int previous = (rank_ + options_.ranks - 1) % options_.ranks;
    require(ncclGroupStart(), "ncclGroupStart");
    require(ncclSend(send_, row.count, nccl_type(row), next, comm_, nullptr), "ncclSend");
    require(ncclRecv(recv_, row.count, nccl_type(row), previous, comm_, nullptr), "ncclRecv");
    require(ncclGroupEnd(), "ncclGroupEnd");
  }

  // A one-element AllReduce is a barrier.
  void synchronize() {
    int value = 1;
    require(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm_, nullptr), "ncclAllReduce");
  }

  double expected(const Row& row, std::size_t index) const {
    const auto block = row.count == 0 ? 0 : static_cast<int>(index / row.count);
    const std::size_t within = row.count == 0 ? 0 : index % row.count;
    const std::size_t mine = static_cast<std::size_t>(rank_) * row.count;
    switch (kind()) {
      case Collective::allreduce:
      case Collective::reduce: return reduced_value(row, options_.ranks, index);
      case Collective::reducescatter: return reduced_value(row, options_.ranks, mine + index);
      case Collective::broadcast: return input_value(row, false, kRoot, index);
      case Collective::alltoall: return input_value(row, false, block, mine + within);
      case Collective::scatter: return input_value(row, false, kRoot, mine + index);
      case Collective::sendrecv: return input_value(row, false, (rank_ + options_.ranks - 1) % options_.ranks, index);
      default: return input_value(row, false, block, within);
    }
  }

  bool has_result() const {
    return is_root() || (kind() != Collective::reduce && kind() != Collective::gather);
  }

  std::size_t count_wrong(const Row& row) const {
    if (!has_result()) return 0;
    const bool rounded = options_.collective->reduces && row.op == ReduceOp::avg && info(row.type).floating;
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < recv_elements(row); ++i) {
      const double wanted = expected(row, i);
      const double tolerance = rounded ? rounding(row.type) * (std::fabs(wanted) + 1) * options_.ranks : 0;
      const double got = load_element(row.type, recv_, i);
      // A product of integers may wrap; then its exact value is compared in the type.
      if (!(std::fabs(got - in_type(row.type, wanted)) <= tolerance)) ++wrong;
    }
    return wrong;
  }

  const PerfOptions& options_;
  int rank_;
  ncclComm_t comm_;
  ncclRedOp_t op_ = ncclSum;
  std::vector<std::byte> first_;
  std::vector<std::byte> second_;
  std::byte* send_ = nullptr;
  std::byte* recv_ = nullptr;
};

}  // namespace

void measure_rank(const PerfOptions& options, int rank, const ncclUniqueId& id,
                  const std::function<void(const Measurement&)>& report) {
  ncclComm_t comm = nullptr;
  require(ncclCommInitRank(&comm, options.ranks, id, rank), "ncclCommInitRank");
  RankRun run(options, rank, comm);
  for (const Row& row : perf_rows(options)) report(run.measure(row));
  require(ncclCommDestroy(comm), "ncclCommDestroy");
}

}  // namespace sccl::tools
