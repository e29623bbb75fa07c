#include "net/ucx/greetings.h"

#include <utility>

namespace sccl::net::ucx {
namespace {

constexpr std::chrono::milliseconds kOftenLimit{1000};
constexpr std::chrono::minutes kPatientLimit{10};

}  // namespace

Greetings::Greetings(const Library& ucp, Handshake handshake, Reopener& reopener)
    : ucp_(ucp), handshake_(handshake), reopener_(reopener), often_limit_(kPatientLimit) {}

void Greetings::be_impatient() { often_limit_ = kOftenLimit; }

void Greetings::step() {
  all_.remove_if([this](Greeting& one) {
    if (one.request == nullptr) return send(one);
    const ucs_status_t status = ucp_.request_check_status(one.request);
    if (status == UCS_INPROGRESS) return false;
    ucp_.request_free(std::exchange(one.request, nullptr));
    if (one.endpoint == nullptr) return true;
    if (status != UCS_OK && one.endpoint->may_recover()) return false;
    one.endpoint->address.clear();
    return true;
  });
}

// True: it is done with.
bool Greetings::send(Greeting& greeting) {
  Endpoint& endpoint = *greeting.endpoint;
  if (endpoint.may_recover()) reopener_.reopen(endpoint);
  if (endpoint.may_recover()) return false;
  if (endpoint.failed != UCS_OK) {
    if (greeting.message == kWelcomeMessage && !endpoint.address.empty()) reopener_.give_up_answer(endpoint);
    return true;
  }
  const bool at_once = probes() && greeting.begins == Begins::nothing && !greeting.at_once_until.passed();
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  if (at_once) params.op_attr_mask |= UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
  if (greeting.begins == Begins::handshake) params.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  params.flags = UCP_AM_SEND_FLAG_EAGER;
  const ucs_status_ptr_t answer =
      ucp_.am_send_nbx(endpoint.ep, greeting.message, greeting.head.data(), greeting.head.size(), greeting.data.data(),
                       greeting.data.size(), &params);
  if (answer == nullptr) {
    endpoint.address.clear();
    return true;
  }
  if (!UCS_PTR_IS_ERR(answer)) {
    greeting.request = answer;
    return false;
  }
  if (at_once && UCS_PTR_STATUS(answer) == UCS_ERR_NO_RESOURCE) return false;
  endpoint.failed = UCS_PTR_STATUS(answer);
  return !endpoint.may_recover();
}

void Greetings::drop(const Endpoint& endpoint) {
  all_.remove_if([&](Greeting& one) {
    if (one.endpoint != &endpoint) return false;
    one.endpoint = nullptr;
    return one.request == nullptr;
  });
}

void Greetings::release() {
  for (Greeting& one : all_)
    if (one.request) ucp_.request_free(std::exchange(one.request, nullptr));
}

}  // namespace sccl::net::ucx
