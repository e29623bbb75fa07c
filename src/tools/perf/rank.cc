#include "tools/perf/rank.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/monotonic.h"
#include "tools/perf/data.h"

namespace sccl::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRoot = 0;
constexpr std::size_t kPageBytes = 4096;

void require(ncclResult_t result, const char* call) {
  if (result != ncclSuccess) throw std::runtime_error(std::string(call) + ": " + ncclGetLastError(nullptr));
}

// Page-aligned memory that is kept from row to row, as programs do.
class Buffer {
 public:
  // `registered_with`: null for memory from the C library.
  explicit Buffer(ncclComm_t registered_with) : comm_(registered_with) {}
  ~Buffer() { release(); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void reserve(std::size_t bytes) {
    if (memory_ != nullptr && bytes <= bytes_) return;
    release();
    bytes_ = (bytes / kPageBytes + 1) * kPageBytes;
    if (comm_ == nullptr) {
      memory_ = std::aligned_alloc(kPageBytes, bytes_);
      if (memory_ == nullptr) throw std::bad_alloc();
      return;
    }
    require(ncclMemAlloc(&memory_, bytes_), "ncclMemAlloc");
    require(ncclCommRegister(comm_, memory_, bytes_, &handle_), "ncclCommRegister");
  }
  std::byte* data() const { return static_cast<std::byte*>(memory_); }

 private:
  void release() {
    if (comm_ == nullptr) return std::free(std::exchange(memory_, nullptr));
    ncclCommDeregister(comm_, std::exchange(handle_, nullptr));
    ncclMemFree(std::exchange(memory_, nullptr));
  }

  ncclComm_t comm_;
  void* memory_ = nullptr;
  void* handle_ = nullptr;
  std::size_t bytes_ = 0;
};

class RankRun {
 public:
  RankRun(const PerfOptions& options, int rank, ncclComm_t comm)
      : options_(options),
        rank_(rank),
        comm_(comm),
        first_(options.registered ? comm : nullptr),
        second_(options.registered ? comm : nullptr) {}

  Measurement measure(const Row& row) {
    Measurement result;
    if (options_.arrival && options_.arrival->counts_messages()) result.message_us = time_message(row.bytes);
    const PerfData data(row, options_.collective->reduces, options_.ranks);
    prepare_op(row, data);
    for (const int place : {0, 1}) {
      if (place == 1 && !options_.collective->has_in_place) break;
      prepare_buffers(row, data, place == 1);
      if (options_.arrival)
        time_arrivals(row, place, result);
      else
        result.us[place] = time_calls(row);
      if (!options_.check) continue;
      prepare_buffers(row, data, place == 1);
      call(row);
      result.wrong[place] = count_wrong(row, data);
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

  static ncclDataType_t nccl_type(const Row& row) { return static_cast<ncclDataType_t>(static_cast<int>(row.type)); }

  void prepare_op(const Row& row, const PerfData& data) {
    op_ = static_cast<ncclRedOp_t>(static_cast<int>(row.op));
    if (row.op != ReduceOp::premul_sum) return;
    std::byte scalar[8];
    data.store_scale(scalar, rank_);
    require(ncclRedOpCreatePreMulSum(&op_, scalar, nccl_type(row), ncclScalarHostImmediate, comm_),
            "ncclRedOpCreatePreMulSum");
  }

  // In place as NCCL documents it: the smaller buffer is this rank's share of the larger one.
  void prepare_buffers(const Row& row, const PerfData& data, bool in_place) {
    const std::size_t element = size_bytes(row.type);
    const std::size_t send = send_elements(row);
    const std::size_t recv = recv_elements(row);
    first_.reserve((in_place ? std::max(send, recv) : send) * element);
    send_ = recv_ = first_.data();
    if (in_place) {
      const std::size_t share = static_cast<std::size_t>(rank_) * row.count * element;
      if (send < recv) send_ += share;
      if (recv < send) recv_ += share;
    } else {
      second_.reserve(recv * element);
      recv_ = second_.data();
      std::fill_n(recv_, recv * element, std::byte{0xff});
    }
    data.fill(send_, send, rank_, 0);
  }

  double time_calls(const Row& row) {
    for (int i = 0; i < options_.warmup; ++i) call(row);
    synchronize();
    const auto begin = Clock::now();
    for (int i = 0; i < options_.iterations; ++i) {
      call(row);
      if (options_.join_rooted_calls && options_.collective->rooted) synchronize();
    }
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / options_.iterations;
  }

  // The median time of one message from rank 0 to rank 1, as half of a message and its answer; told to all ranks.
  double time_message(std::size_t bytes) {
    constexpr int kTimes = 15;
    std::vector<double> found_us;
    first_.reserve(bytes);
    std::byte* const data = first_.data();
    const auto send = [&](int to) { require(ncclSend(data, bytes, ncclInt8, to, comm_, nullptr), "ncclSend"); };
    const auto receive = [&](int from) { require(ncclRecv(data, bytes, ncclInt8, from, comm_, nullptr), "ncclRecv"); };
    for (int i = 0; i < kTimes; ++i) {
      const std::uint64_t begin_ns = monotonic_ns();
      if (rank_ == 0) {
        send(1);
        receive(1);
      } else if (rank_ == 1) {
        receive(0);
        send(0);
      }
      found_us.push_back(static_cast<double>(monotonic_ns() - begin_ns) * 0.5e-3);
    }
    std::nth_element(found_us.begin(), found_us.begin() + kTimes / 2, found_us.end());
    double median_us = found_us[kTimes / 2];
    require(ncclBroadcast(&median_us, &median_us, 1, ncclFloat64, 0, comm_, nullptr), "ncclBroadcast");
    return median_us;
  }

  // Ranks that are late sleep, so that the early ones have the cores. All ranks share a clock: they tell one another
  // when they came and went after the last call.
  void time_arrivals(const Row& row, int place, Measurement& result) {
    constexpr std::uint64_t kLeadNs = 200000;  // for all to have left the barrier
    for (int i = 0; i < options_.warmup; ++i) call(row);
    const auto calls = static_cast<std::size_t>(options_.iterations);
    std::vector<std::uint64_t> own(2 * calls);
    for (std::size_t i = 0; i < calls; ++i) {
      std::uint64_t begin_ns = monotonic_ns() + kLeadNs;
      require(ncclAllReduce(&begin_ns, &begin_ns, 1, ncclUint64, ncclMax, comm_, nullptr), "ncclAllReduce");
      sleep_until_ns(begin_ns + options_.arrival->delay_ns(rank_, static_cast<int>(i), result.message_us * 1e3));
      own[2 * i] = monotonic_ns();
      call(row);
      own[2 * i + 1] = monotonic_ns();
    }
    std::vector<std::uint64_t> all(own.size() * ranks());
    require(ncclAllGather(own.data(), all.data(), own.size(), ncclUint64, comm_, nullptr), "ncclAllGather");
    const auto time = [&](std::size_t rank, std::size_t i) { return all[rank * own.size() + i]; };
    for (std::size_t i = 0; i < calls; ++i) {
      std::uint64_t first = time(0, 2 * i), last = first, exit = 0;
      for (std::size_t rank = 0; rank < ranks(); ++rank) {
        first = std::min(first, time(rank, 2 * i));
        last = std::max(last, time(rank, 2 * i));
        exit = std::max(exit, time(rank, 2 * i + 1));
        result.in_call_us[place] += static_cast<double>(time(rank, 2 * i + 1) - time(rank, 2 * i)) * 1e-3;
      }
      result.us[place] += static_cast<double>(exit - std::min(exit, last)) * 1e-3;
      result.spread_us[place] += static_cast<double>(last - first) * 1e-3;
    }
    result.us[place] /= static_cast<double>(calls);
    result.spread_us[place] /= static_cast<double>(calls);
    result.in_call_us[place] /= static_cast<double>(calls * ranks());
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
      case Collective::sendrecv:
        return send_and_receive(row);
    }
  }

  // Sends to the next rank of a ring and receives from the previous one, as nccl-tests does.
  void send_and_receive(const Row& row) {
    const int next = (rank_ + 1) % options_.ranks;
    require(ncclGroupStart(), "ncclGroupStart");
    require(ncclSend(send_, row.count, nccl_type(row), next, comm_, nullptr), "ncclSend");
    require(ncclRecv(recv_, row.count, nccl_type(row), previous(), comm_, nullptr), "ncclRecv");
    require(ncclGroupEnd(), "ncclGroupEnd");
  }
  int previous() const { return (rank_ + options_.ranks - 1) % options_.ranks; }

  // A one-element AllReduce is a barrier.
  void synchronize() {
    int value = 1;
    require(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm_, nullptr), "ncclAllReduce");
  }

  // One block of `count` elements from each rank, in order.
  std::size_t wrong_blocks(const Row& row, const PerfData& data, std::size_t first) const {
    std::size_t wrong = 0;
    for (int from = 0; from < options_.ranks; ++from) {
      const std::byte* block = recv_ + static_cast<std::size_t>(from) * row.count * size_bytes(row.type);
      wrong += data.wrong_copies(block, row.count, from, first);
    }
    return wrong;
  }

  std::size_t count_wrong(const Row& row, const PerfData& data) const {
    const std::size_t mine = static_cast<std::size_t>(rank_) * row.count;
    switch (kind()) {
      case Collective::allreduce:
        return data.wrong_results(recv_, row.count, 0);
      case Collective::reduce:
        return is_root() ? data.wrong_results(recv_, row.count, 0) : 0;
      case Collective::reducescatter:
        return data.wrong_results(recv_, row.count, mine);
      case Collective::allgather:
        return wrong_blocks(row, data, 0);
      case Collective::gather:
        return is_root() ? wrong_blocks(row, data, 0) : 0;
      case Collective::alltoall:
        return wrong_blocks(row, data, mine);
      case Collective::broadcast:
        return data.wrong_copies(recv_, row.count, kRoot, 0);
      case Collective::scatter:
        return data.wrong_copies(recv_, row.count, kRoot, mine);
      case Collective::sendrecv:
        return data.wrong_copies(recv_, row.count, previous(), 0);
    }
    return 0;
  }

  const PerfOptions& options_;
  int rank_;
  ncclComm_t comm_;
  ncclRedOp_t op_ = ncclSum;
  Buffer first_;
  Buffer second_;
  std::byte* send_ = nullptr;
  std::byte* recv_ = nullptr;
};

}  // namespace

void measure_rank(const PerfOptions& options, int rank, const ncclUniqueId& id,
                  const std::function<void(const Measurement&)>& report) {
  ncclComm_t comm = nullptr;
  require(ncclCommInitRank(&comm, options.ranks, id, rank), "ncclCommInitRank");
  try {
    RankRun run(options, rank, comm);
    for (const Row& row : perf_rows(options)) report(run.measure(row));
  } catch (...) {
    ncclCommAbort(comm);  // so that no peer waits for this rank
    throw;
  }
  require(ncclCommDestroy(comm), "ncclCommDestroy");
}

}  // namespace sccl::tools
