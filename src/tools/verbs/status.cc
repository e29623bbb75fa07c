// sccl status: asks a running process for its communicators, and shows which rank is in which call and waits for which
// rank.
#include "runtime/membership/status.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/fd.h"
#include "base/settings/printable.h"
#include "tools/input/parse.h"
#include "tools/verbs/verbs.h"

namespace sccl::tools {
namespace {

using nlohmann::json;

constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr std::chrono::seconds kAnswerLimit{10};  // for the whole answer, however slowly it arrives

// Any process may take a name in the abstract space first. So the answering process must be the one that was asked, and
// must belong to this user or to the system.
void check_answerer(const FileDescriptor& socket, long process) {
  ucred who{};
  socklen_t length = sizeof who;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &length) != 0)
    throw std::runtime_error(std::string("the system does not tell who answers: ") + std::strerror(errno));
  if (who.pid != process)
    throw std::runtime_error("process " + std::to_string(who.pid) + " of user " + std::to_string(who.uid) +
                             " answers in the name of process " + std::to_string(process) + ": it is not believed");
  if (who.uid != ::geteuid() && who.uid != 0 && ::geteuid() != 0)
    throw std::runtime_error("process " + std::to_string(process) + " belongs to another user");
}

// Throws, with the reason, when the process does not answer.
std::string ask(long process) {
  const std::string name = runtime::status_socket_name(process);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{5, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0)
    throw std::runtime_error("process " + std::to_string(process) + " shows no status (" + std::strerror(errno) +
                             "): start it with SCCL_STATUS=1; before its first communicator there is nothing to show");
  check_answerer(socket, process);
  std::string text;
  char buffer[4096];
  const auto end = std::chrono::steady_clock::now() + kAnswerLimit;
  for (ssize_t count = 0; (count = ::recv(socket.get(), buffer, sizeof buffer, 0)) != 0;) {
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 || std::chrono::steady_clock::now() > end)
      throw std::runtime_error("process " + std::to_string(process) + " does not answer: is it stopped?");
    text.append(buffer, static_cast<std::size_t>(count));
    if (text.size() > kMostBytes)
      throw std::runtime_error("process " + std::to_string(process) + " answers more than " +
                               std::to_string(kMostBytes) + " bytes: it is not believed");
  }
  if (text.empty()) throw std::runtime_error("process " + std::to_string(process) + " belongs to another user");
  return text;
}

std::string list_of(const json& ranks) {
  std::string text;
  for (const json& rank : ranks) text += (text.empty() ? "" : ",") + rank.dump();
  return text;
}

enum class Hosts { one, several };

bool is_over_hosts(const json& ranks) {
  for (const json& rank : ranks)
    if (rank.at("host") != ranks.front().at("host")) return true;
  return false;
}

void print_rank(const json& rank, bool own, Hosts hosts) {
  const std::string state = rank.at("state");
  const std::string doing = rank.at("doing");
  std::string line = rank.contains("fault") ? "failed: " + rank.at("fault").get<std::string>()
                     : state != "present"   ? state
                     : doing.empty()        ? "between calls"
                                            : doing;
  if (const std::string awaited = list_of(rank.at("waits_for")); !awaited.empty() && state == "present") {
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.1f", rank.at("waits_seconds").get<double>());
    line += ", waiting for rank " + awaited + " for " + seconds + " s";
  }
  if (hosts == Hosts::several) line = "on " + rank.at("host").get<std::string>() + ": " + line;
  std::printf("%c %5ld %9ld %8lu  %s\n", own ? '*' : ' ', rank.at("rank").get<long>(), rank.at("process").get<long>(),
              rank.at("call").get<unsigned long>(), printable(line).c_str());
  if (state != "present") return;
  for (const json& lane : rank.at("lanes")) {
    const std::string slot = lane.contains("slot") ? ", slot " + lane.at("slot").dump() : "";
    std::printf("%26s lane %ld, operation %ld: rank %ld%s\n", "", lane.at("lane").get<long>(),
                lane.at("operation").get<long>(), lane.at("peer").get<long>(), printable(slot).c_str());
  }
}

// Who comes last, and how far apart the ranks enter calls. Other versions tell nothing of it.
void print_arrivals(const json& communicator) {
  const auto arrivals = communicator.find("arrivals");
  if (arrivals == communicator.end()) return;
  if (const json& whole = arrivals->at("straggler"); !whole.is_null())
    std::printf("  %s\n", printable(whole.at("text").get<std::string>()).c_str());
  else
    for (const json& host : arrivals->at("hosts"))
      if (const json& its = host.at("straggler"); !its.is_null())
        std::printf("  %s\n", printable(its.at("text").get<std::string>()).c_str());
  for (const json& kind : arrivals->at("kinds")) {
    std::string line = kind.at("collective").get<std::string>() + ", " + kind.at("bytes").get<std::string>();
    char figures[160];
    std::snprintf(figures, sizeof figures, ": %lu calls measured, ranks come within %.1f us in the mean",
                  kind.at("calls").get<unsigned long>(), kind.at("spread_us").get<double>());
    line += figures;
    if (!kind.at("mif").is_null()) {
      std::snprintf(figures, sizeof figures, " (MIF %.3g, AIF %.3g)", kind.at("mif").get<double>(),
                    kind.at("aif").get<double>());
      line += figures;
    }
    std::printf("  %s\n", printable(line).c_str());
  }
}

void print_text(const json& status) {
  const json& communicators = status.at("communicators");
  std::printf("process %ld: %zu communicator%s\n", status.at("process").get<long>(), communicators.size(),
              communicators.size() == 1 ? "" : "s");
  if (const std::string vendor = printable(status.value("vendor", "")); !vendor.empty())
    std::printf("vendor's library: %s\n", vendor.c_str());
  for (const json& communicator : communicators) {
    const std::string name = printable(communicator.at("name").get<std::string>());
    const long own = communicator.at("rank");
    std::printf("\ncommunicator %ld (%s)%s: rank %ld of %ld\n", communicator.at("communicator").get<long>(),
                printable(communicator.value("identity", "")).c_str(),
                name.empty() ? "" : (" \"" + name + "\"").c_str(), own, communicator.at("size").get<long>());
    std::puts("   rank   process     call");
    const json& ranks = communicator.at("ranks");
    const Hosts hosts = is_over_hosts(ranks) ? Hosts::several : Hosts::one;
    for (const json& rank : ranks) print_rank(rank, rank.at("rank").get<long>() == own, hosts);
    print_arrivals(communicator);
  }
}

}  // namespace

int status(int argc, char** argv) {
  CLI::App app("Who is in which call and waits for whom, of a process started with SCCL_STATUS=1.", "sccl status");
  long process = 0;
  bool as_json = false;
  app.add_option("PID", process, "the process")->required();
  app.add_flag("--json", as_json, "print JSON");
  try {
    parse(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  }
  try {
    const json status = json::parse(ask(process));
    if (as_json)
      std::puts(status.dump(2, ' ', true, json::error_handler_t::replace).c_str());  // ASCII only
    else
      print_text(status);
    return kOk;
  } catch (const json::exception& error) {
    std::fprintf(stderr, "sccl status: process %ld answers what is no status: %s\n", process,
                 printable(error.what()).c_str());
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "sccl status: %s\n", error.what());
  }
  return kNo;
}

}  // namespace sccl::tools
