// The greetings of a connection, by a UCX that the test plays.
#include "net/ucx/greetings.h"

#include <catch2/catch.hpp>

using namespace sccl;
using namespace sccl::net::ucx;

namespace {

int freed = 0;
ucs_status_t status = UCS_INPROGRESS;
int sent = 0;

// Sends nothing at once; what becomes of it is `status`.
Library played() {
  static char request = 0;
  Library ucp{};
  ucp.am_send_nbx = [](ucp_ep_h, unsigned, const void*, std::size_t, const void*, std::size_t,
                       const ucp_request_param_t*) -> ucs_status_ptr_t {
    ++sent;
    return &request;
  };
  ucp.request_check_status = [](void*) { return status; };
  ucp.request_free = [](void*) { ++freed; };
  return ucp;
}

class NoReopener final : public Reopener {
 public:
  void reopen(Endpoint& endpoint) override { endpoint.failed = UCS_OK; }
  void give_up_answer(const Endpoint&) override {}
};

}  // namespace

TEST_CASE("what UCX still sends for a connection that is closed touches that one no more") {
  const Library ucp = played();
  NoReopener reopener;
  Greetings greetings(ucp, Greetings::Handshake::at_any_time, reopener);
  freed = sent = 0;
  status = UCS_INPROGRESS;
  Endpoint endpoint;
  endpoint.again_until = Deadline::in(std::chrono::seconds(60));
  endpoint.address.resize(8);
  greetings.add(endpoint, 1, 7);
  greetings.step();
  CHECK(sent == 1);
  greetings.drop(endpoint);
  greetings.step();
  CHECK_FALSE(greetings.empty());  // UCX has its memory
  endpoint.failed = UCS_ERR_ENDPOINT_TIMEOUT;
  status = UCS_ERR_CANCELED;
  greetings.step();
  CHECK(greetings.empty());
  CHECK((sent == 1 && freed == 1));
  CHECK(endpoint.address.size() == 8);
}
