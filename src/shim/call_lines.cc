#include "shim/call_lines.h"

#include "base/os/cancellation.h"

namespace sccl::shim {
namespace {

// Operation numbers and addresses are hexadecimal, counts decimal: NCCL's log scrapers read these lines.
void print(log::Subsystem subsystem, std::string_view name, const Pin& pin, const void* send, const void* recv,
           std::size_t count, DataType type, int op, Rank root, const void* stream) {
  const NoCancellation uncancelled;
  log::info(subsystem,
            "{}: opCount {:x} sendbuff {} recvbuff {} count {} datatype {} op {} root {} comm {} [nranks={}] stream {}",
            name, pin.operation(), send, recv, count, static_cast<int>(type), op, root,
            static_cast<const void*>(pin.handle()), pin.communicator()->ranks(), stream);
}

}  // namespace

void print_collective(const Pin& pin, const runtime::CollectiveRequest& request, int op) {
  print(log::Subsystem::coll, info(request.collective).call_name, pin, request.send, request.recv, request.count,
        request.type, op, request.root, request.stream);
}

void print_transfer(const Pin& pin, const runtime::PointToPointRequest& request) {
  const bool sends = request.direction == runtime::Direction::send;
  print(log::Subsystem::p2p, sends ? "Send" : "Recv", pin, sends ? request.buffer : nullptr,
        sends ? nullptr : request.buffer, request.count, request.type, 0, request.peer, request.stream);
}

}  // namespace sccl::shim
