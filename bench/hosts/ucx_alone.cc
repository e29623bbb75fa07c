// The least that two ranks of two hosts can do over UCX: the calls of NCCL that bench/host/workload.h makes, in a
// library of NCCL's name. UCX has the settings that libsccl gives it over TCP. No slots, no checks of calls, no errors
// of peers: each byte is sent from the caller's buffer, and copied or added once where UCX shows it. Built by
// bench/hosts/run.sh. Its times beside an MPI's tell what the engine costs. libsccl is faster in some long calls, so it
// is no bound there.
#include <sched.h>
#include <ucp/api/ucp.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "nccl_shim/nccl.h"

namespace {

// As src/net/ucx/worker.cc and src/net/net.h have them.
constexpr std::size_t kMostMessageBytes = 255 * 1024;
constexpr std::size_t kSegmentBytes = kMostMessageBytes + 4096;
// As slots between hosts are.
constexpr std::size_t kPieceBytes = 252 * 1024;
constexpr std::size_t kMostInFlight = 8;
constexpr std::size_t kShortBytes = 128 * 1024;  // up to here AllReduce exchanges everything at once
constexpr int kPollsBeforeYield = 20;
constexpr unsigned kAddressMessage = 1;
constexpr unsigned kDataMessage = 2;

void require(ucs_status_t status, const char* what) {
  if (status == UCS_OK) return;
  std::fprintf(stderr, "%s: %s\n", what, ucs_status_string(status));
  std::abort();
}

// Where data of a call goes: copied, or added to `with`.
struct Sink {
  char* to = nullptr;
  const char* with = nullptr;
  std::size_t bytes = 0;

  void take(std::size_t at, const void* data, std::size_t count) const {
    if (with == nullptr)
      std::memcpy(to + at, data, count);
    else
      add(reinterpret_cast<float*>(to + at), reinterpret_cast<const float*>(with + at), static_cast<const float*>(data),
          count / sizeof(float));
  }
  static void add(float* to, const float* a, const float* b, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
  }
};
// Sums of floats are right for the ones of workload.h's barrier, too, of which nobody looks at the result.

struct Piece {
  const char* data;
  std::size_t bytes;
};

class Pair {
 public:
  Pair() {
    ucp_config_t* config = nullptr;
    require(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
    ucp_config_modify(config, "ZCOPY_THRESH", "inf");
    set(config, "RX_SEG_SIZE");
    set(config, "TX_SEG_SIZE");
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    require(ucp_init(&params, config, &context_), "ucp_init");
    ucp_config_release(config);
    ucp_worker_params_t worker{};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    require(ucp_worker_create(context_, &worker, &worker_), "ucp_worker_create");
    handle(kAddressMessage, address_came);
    handle(kDataMessage, data_came);
    ucp_worker_attr_t attributes{};
    attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
    attributes.address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY;
    require(ucp_worker_query(worker_, &attributes), "ucp_worker_query");
    const char* const begin = reinterpret_cast<const char*>(attributes.address);
    address_.assign(begin, begin + attributes.address_length);
    ucp_worker_release_address(worker_, attributes.address);
  }

  const std::vector<char>& address() const { return address_; }

  // Rank 1 has rank 0's address of the id, and tells its own.
  void connect(int rank, const char* id) {
    rank_ = rank;
    if (rank == 0) {
      while (peer_address_.empty()) progress();
      connect_to(peer_address_.data());
    } else {
      connect_to(id);
      send(kAddressMessage, address_.data(), address_.size());
    }
    while (in_flight_ > 0) progress();
  }

  int rank() const { return rank_; }

  // Sends `out` and takes as much as `in` asks for.
  void exchange(Piece out, const Sink& in) {
    sink_ = &in;
    taken_ = 0;
    take_early();
    std::size_t sent = 0;
    for (int idle = 0; sent < out.bytes || taken_ < in.bytes || in_flight_ > 0;) {
      for (; sent < out.bytes && in_flight_ < kMostInFlight; idle = 0) {
        const std::size_t bytes = std::min(kPieceBytes, out.bytes - sent);
        send(kDataMessage, out.data + sent, bytes);
        sent += bytes;
      }
      if (taken_ == in.bytes && in_flight_ == 0) break;
      if (progress() > 0) {
        idle = 0;
      } else if (++idle == kPollsBeforeYield) {
        ::sched_yield();
        idle = 0;
      }
    }
    sink_ = nullptr;
  }

 private:
  // UCX 1.17 and newer put the transport's name before those of its settings.
  static void set(ucp_config_t* config, const char* name) {
    const std::string value = std::to_string(kSegmentBytes);
    if (ucp_config_modify(config, name, value.c_str()) != UCS_OK)
      ucp_config_modify(config, (std::string("TCP_") + name).c_str(), value.c_str());
  }

  void handle(unsigned message, ucp_am_recv_callback_t function) {
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                         UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = message;
    handler.flags = UCP_AM_FLAG_WHOLE_MSG;
    handler.cb = function;
    handler.arg = this;
    require(ucp_worker_set_am_recv_handler(worker_, &handler), "ucp_worker_set_am_recv_handler");
  }

  void connect_to(const char* address) {
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    params.address = reinterpret_cast<const ucp_address_t*>(address);
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    require(ucp_ep_create(worker_, &params, &endpoint_), "ucp_ep_create");
  }

  void send(unsigned message, const void* data, std::size_t bytes) {
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = UCP_AM_SEND_FLAG_EAGER;
    params.cb.send = sent;
    params.user_data = this;
    const ucs_status_ptr_t answer = ucp_am_send_nbx(endpoint_, message, nullptr, 0, data, bytes, &params);
    if (answer == nullptr) return;
    if (UCS_PTR_IS_ERR(answer)) require(UCS_PTR_STATUS(answer), "ucp_am_send_nbx");
    ++in_flight_;
  }

  unsigned progress() { return ucp_worker_progress(worker_); }

  void take(const void* data, std::size_t bytes) {
    if (sink_ == nullptr || taken_ == sink_->bytes) {
      const char* const begin = static_cast<const char*>(data);
      early_.emplace_back(begin, begin + bytes);
      return;
    }
    sink_->take(taken_, data, bytes);
    taken_ += bytes;
  }

  // What came before the call that asks for it.
  void take_early() {
    while (!early_.empty() && taken_ < sink_->bytes) {
      const std::vector<char> piece = std::move(early_.front());
      early_.pop_front();
      take(piece.data(), piece.size());
    }
  }

  static void sent(void* request, ucs_status_t status, void* self) {
    require(status, "sending");
    ucp_request_free(request);
    --static_cast<Pair*>(self)->in_flight_;
  }
  static ucs_status_t address_came(void* self, const void*, size_t, void* data, size_t bytes,
                                   const ucp_am_recv_param_t*) {
    const char* const begin = static_cast<const char*>(data);
    static_cast<Pair*>(self)->peer_address_.assign(begin, begin + bytes);
    return UCS_OK;
  }
  static ucs_status_t data_came(void* self, const void*, size_t, void* data, size_t bytes, const ucp_am_recv_param_t*) {
    static_cast<Pair*>(self)->take(data, bytes);
    return UCS_OK;
  }

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  std::vector<char> address_, peer_address_;
  int rank_ = 0;
  std::size_t in_flight_ = 0;
  const Sink* sink_ = nullptr;
  std::size_t taken_ = 0;
  std::deque<std::vector<char>> early_;
};

// Never destroyed: the process ends.
Pair& pair() {
  static Pair& it = *new Pair;
  return it;
}

const char* bytes_of(const void* data) { return static_cast<const char*>(data); }
char* bytes_of(void* data) { return static_cast<char*>(data); }

Piece group_send{};
Sink group_receive{};

}  // namespace

extern "C" {

const char* ncclGetLastError(ncclComm_t) { return "UCX alone"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::vector<char>& address = pair().address();
  if (address.size() > sizeof id->internal) return ncclInternalError;
  std::memcpy(id->internal, address.data(), address.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  if (ranks != 2) return ncclInvalidUsage;
  pair().connect(rank, id.internal);
  *comm = nullptr;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  *memory = std::aligned_alloc(4096, bytes);
  return ncclSuccess;
}
ncclResult_t ncclMemFree(void* memory) {
  std::free(memory);
  return ncclSuccess;
}

ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                               cudaStream_t) {
  const std::size_t bytes = count * sizeof(float);
  const auto mine = static_cast<std::size_t>(pair().rank()) * bytes;
  pair().exchange({bytes_of(send) + (bytes - mine), bytes}, {bytes_of(recv), bytes_of(send) + mine, bytes});
  return ncclSuccess;
}

ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t, ncclComm_t, cudaStream_t) {
  const std::size_t bytes = count * sizeof(float);
  const auto mine = static_cast<std::size_t>(pair().rank()) * bytes;
  if (char* const own = bytes_of(recv) + mine; own != send) std::memcpy(own, send, bytes);
  pair().exchange({bytes_of(send), bytes}, {bytes_of(recv) + (bytes - mine), nullptr, bytes});
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                           cudaStream_t) {
  const std::size_t bytes = count * sizeof(float);
  if (bytes <= kShortBytes) {
    pair().exchange({bytes_of(send), bytes}, {bytes_of(recv), bytes_of(send), bytes});
    return ncclSuccess;
  }
  const std::size_t half = count / 2 * sizeof(float);
  const std::size_t begin[] = {0, half};
  const std::size_t length[] = {half, bytes - half};
  const int mine = pair().rank();
  const int other = 1 - mine;
  pair().exchange({bytes_of(send) + begin[other], length[other]},
                  {bytes_of(recv) + begin[mine], bytes_of(send) + begin[mine], length[mine]});
  pair().exchange({bytes_of(recv) + begin[mine], length[mine]},
                  {bytes_of(recv) + begin[other], nullptr, length[other]});
  return ncclSuccess;
}

ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t, int root, ncclComm_t,
                           cudaStream_t) {
  const std::size_t bytes = count * sizeof(float);
  if (pair().rank() == root)
    pair().exchange({bytes_of(send), bytes}, {});
  else
    pair().exchange({}, {bytes_of(recv), nullptr, bytes});
  return ncclSuccess;
}

ncclResult_t ncclAlltoAll(const void* send, void* recv, size_t count, ncclDataType_t, ncclComm_t, cudaStream_t) {
  const std::size_t bytes = count * sizeof(float);
  const auto mine = static_cast<std::size_t>(pair().rank()) * bytes;
  std::memcpy(bytes_of(recv) + mine, bytes_of(send) + mine, bytes);
  pair().exchange({bytes_of(send) + (bytes - mine), bytes}, {bytes_of(recv) + (bytes - mine), nullptr, bytes});
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  group_send = {};
  group_receive = {};
  return ncclSuccess;
}
ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t, int, ncclComm_t, cudaStream_t) {
  group_send = {bytes_of(send), count * sizeof(float)};
  return ncclSuccess;
}
ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t, int, ncclComm_t, cudaStream_t) {
  group_receive = {bytes_of(recv), nullptr, count * sizeof(float)};
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  pair().exchange(group_send, group_receive);
  return ncclSuccess;
}

}  // extern "C"
