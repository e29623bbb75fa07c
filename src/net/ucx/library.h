// UCX's functions, looked up in libucp.so.0 when a communicator needs them: the library is not linked with UCX.
//
// The declarations are those of UCX 1.13, the oldest accepted version; later versions keep them (every structure has a
// mask of valid fields).
#pragma once

#include <ucp/api/ucp.h>

#include <cstdio>
#include <string>

namespace sccl::net::ucx {

struct Library {
  decltype(&::ucp_config_read) config_read;
  decltype(&::ucp_config_release) config_release;
  decltype(&::ucp_config_modify) config_modify;
  decltype(&::ucp_config_print) config_print;
  decltype(&::ucp_get_version) get_version;
  decltype(&::ucp_get_version_string) get_version_string;
  decltype(&::ucp_init_version) init_version;
  decltype(&::ucp_cleanup) cleanup;
  decltype(&::ucp_context_print_info) context_print_info;
  decltype(&::ucp_worker_create) worker_create;
  decltype(&::ucp_worker_destroy) worker_destroy;
  decltype(&::ucp_worker_query) worker_query;
  decltype(&::ucp_worker_release_address) worker_release_address;
  decltype(&::ucp_worker_progress) worker_progress;
  decltype(&::ucp_worker_flush_nbx) worker_flush_nbx;
  decltype(&::ucp_worker_get_efd) worker_get_efd;
  decltype(&::ucp_worker_arm) worker_arm;
  decltype(&::ucp_worker_set_am_recv_handler) worker_set_am_recv_handler;
  decltype(&::ucp_ep_create) ep_create;
  decltype(&::ucp_ep_close_nbx) ep_close_nbx;
  decltype(&::ucp_am_send_nbx) am_send_nbx;
  decltype(&::ucp_am_recv_data_nbx) am_recv_data_nbx;
  decltype(&::ucp_am_data_release) am_data_release;
  decltype(&::ucp_request_check_status) request_check_status;
  decltype(&::ucp_request_free) request_free;
  decltype(&::ucs_status_string) status_string;
  // Older versions end the program by an assertion when an endpoint fails, or a worker is destroyed, while a message of
  // UCX's own handshake waits to be sent (1.13; 1.15, 1.17 and 1.22 do not).
  bool wires_up_safely;
};

// Throws system_error with the remedy when there is no UCX, or a version before 1.13. UCX's signal handlers are removed
// after loading (version 1.13 would handle SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGHUP for the process).
const Library& library();

std::string text_of(ucs_status_t status);

}  // namespace sccl::net::ucx
