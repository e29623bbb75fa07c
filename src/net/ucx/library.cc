#include "net/ucx/library.h"

#include <dlfcn.h>

#include <array>
#include <csignal>

#include "net/net.h"

namespace sccl::net::ucx {
namespace {

constexpr const char* kFile = "libucp.so.0";
constexpr const char* kServicesFile = "libucs.so.0";
constexpr unsigned kOldestMinor = 13;  // of version 1
constexpr const char* kInstall = "install UCX 1.13 or newer (package libucx0)";
constexpr unsigned kSafeWireupMinor = 15;

// Saves the program's signal handlers, and restores them at the end.
class KeptSignalHandlers {
 public:
  KeptSignalHandlers() {
    for (int signal = 1; signal < kSignals; ++signal)
      known_[index(signal)] = sigaction(signal, nullptr, &at(signal)) == 0;
  }
  ~KeptSignalHandlers() {
    for (int signal = 1; signal < kSignals; ++signal)
      if (known_[index(signal)]) sigaction(signal, &at(signal), nullptr);
  }
  KeptSignalHandlers(const KeptSignalHandlers&) = delete;
  KeptSignalHandlers& operator=(const KeptSignalHandlers&) = delete;

 private:
  static constexpr int kSignals = 32;
  static std::size_t index(int signal) { return static_cast<std::size_t>(signal); }
  struct sigaction& at(int signal) {
    return actions_[index(signal)];
  }

  std::array<struct sigaction, kSignals> actions_{};
  std::array<bool, kSignals> known_{};
};

void* open_file(const char* name) {
  if (void* file = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return file;
  throw EngineError(ErrorCode::system_error,
                    fmt::format("UCX, which moves data between hosts, cannot be loaded: {}", dlerror()),
                    std::string(kInstall) + ", or set NCCL_NET_PLUGIN to a net plugin");
}

template <typename Function>
void look_up(void* file, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(file, name));
  if (!function) throw EngineError(ErrorCode::system_error, fmt::format("{} lacks {}", kFile, name), kInstall);
}

Library load() {
  const KeptSignalHandlers keep;
  void* ucp = open_file(kFile);
  void* ucs = open_file(kServicesFile);
  Library l{};
  look_up(ucp, "ucp_get_version", l.get_version);
  look_up(ucp, "ucp_get_version_string", l.get_version_string);
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  l.get_version(&major, &minor, &release);
  if (major != 1 || minor < kOldestMinor)
    throw EngineError(ErrorCode::system_error, fmt::format("UCX {}.{} is not supported", major, minor), kInstall);
  l.wires_up_safely = minor >= kSafeWireupMinor;
  look_up(ucp, "ucp_config_read", l.config_read);
  look_up(ucp, "ucp_config_release", l.config_release);
  look_up(ucp, "ucp_config_modify", l.config_modify);
  look_up(ucp, "ucp_config_print", l.config_print);
  look_up(ucp, "ucp_init_version", l.init_version);
  look_up(ucp, "ucp_cleanup", l.cleanup);
  look_up(ucp, "ucp_context_print_info", l.context_print_info);
  look_up(ucp, "ucp_worker_create", l.worker_create);
  look_up(ucp, "ucp_worker_destroy", l.worker_destroy);
  look_up(ucp, "ucp_worker_query", l.worker_query);
  look_up(ucp, "ucp_worker_release_address", l.worker_release_address);
  look_up(ucp, "ucp_worker_progress", l.worker_progress);
  look_up(ucp, "ucp_worker_flush_nbx", l.worker_flush_nbx);
  look_up(ucp, "ucp_worker_get_efd", l.worker_get_efd);
  look_up(ucp, "ucp_worker_arm", l.worker_arm);
  look_up(ucp, "ucp_worker_set_am_recv_handler", l.worker_set_am_recv_handler);
  look_up(ucp, "ucp_ep_create", l.ep_create);
  look_up(ucp, "ucp_ep_close_nbx", l.ep_close_nbx);
  look_up(ucp, "ucp_am_send_nbx", l.am_send_nbx);
  look_up(ucp, "ucp_am_recv_data_nbx", l.am_recv_data_nbx);
  look_up(ucp, "ucp_am_data_release", l.am_data_release);
  look_up(ucp, "ucp_request_check_status", l.request_check_status);
  look_up(ucp, "ucp_request_free", l.request_free);
  look_up(ucs, "ucs_status_string", l.status_string);
  return l;
}

}  // namespace

const Library& library() {
  // The next communicator tries a failed load again: the file may have been installed since.
  static const Library loaded = load();
  return loaded;
}

std::string text_of(ucs_status_t status) { return library().status_string(status); }

}  // namespace sccl::net::ucx
