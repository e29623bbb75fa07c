// Ranks of `sccl perf` as processes: pipes carry the id and the measurements.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <type_traits>

#include "base/fd.h"
#include "tools/launch/practice_hosts.h"
#include "tools/perf/launch.h"
#include "tools/perf/rank.h"

namespace sccl::tools {
namespace {

using Clock = std::chrono::steady_clock;

static_assert(std::is_trivially_copyable_v<Measurement>);

// After a rank has failed, the others may report for this long.
constexpr std::chrono::milliseconds kGrace{2000};

bool write_all(int descriptor, const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t count = ::write(descriptor, at, bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    bytes -= static_cast<std::size_t>(count);
  }
  return true;
}

bool read_all(int descriptor, void* data, std::size_t bytes) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t count = ::read(descriptor, at, bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    bytes -= static_cast<std::size_t>(count);
  }
  return true;
}

// A rank's output: rank 0 sends the id that it has made, then every rank sends its measurement of each row.
int rank_main(const PerfOptions& options, const PracticeHosts* hosts, int rank, int down, int up) {
  try {
    if (hosts != nullptr) hosts->enter(rank * hosts->count() / options.ranks);
    ncclUniqueId id;
    if (rank == 0) {
      if (ncclGetUniqueId(&id) != ncclSuccess) throw std::runtime_error(ncclGetLastError(nullptr));
      if (!write_all(up, &id, sizeof id)) return 1;
    }
    if (!read_all(down, &id, sizeof id)) return 1;
    measure_rank(options, rank, id, [&](const Measurement& one) {
      if (!write_all(up, &one, sizeof one)) throw std::runtime_error("the parent is gone");
    });
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    return 1;
  }
}

// The parent's side of one rank.
struct RankProcess {
  pid_t process = -1;
  FileDescriptor down;
  FileDescriptor up;  // invalid once the rank has ended
  std::vector<std::byte> received;
  std::size_t taken = 0;  // bytes of `received` that were read

  bool ended() const { return !up.valid(); }

  template <typename T>
  bool take(T& value) {
    if (received.size() - taken < sizeof value) return false;
    std::memcpy(&value, received.data() + taken, sizeof value);
    taken += sizeof value;
    return true;
  }
};

class RankProcesses {
 public:
  RankProcesses(const PerfOptions& options, PerfReport& report) : rows_(perf_rows(options)), report_(report) {
    if (options.hosts > 1) hosts_.emplace(options.hosts, options.shape);
    for (int rank = 0; rank < options.ranks; ++rank) start(options, rank);
  }
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;
  ~RankProcesses() { end_all(); }

  bool run() {
    report_.progress(0, rows_.size());
    while (running() > 0) {
      if (!wait_for_input()) break;
      pass_on_id();
      while (report_row()) {
      }
    }
    end_all();
    return well_;
  }

 private:
  void start(const PerfOptions& options, int rank) {
    int down[2];
    int up[2];
    if (::pipe2(down, O_CLOEXEC) != 0) throw std::runtime_error("no pipe can be opened: raise ulimit -n");
    FileDescriptor down_read(down[0]);
    FileDescriptor down_write(down[1]);
    if (::pipe2(up, O_CLOEXEC) != 0) throw std::runtime_error("no pipe can be opened: raise ulimit -n");
    FileDescriptor up_read(up[0]);
    FileDescriptor up_write(up[1]);
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child < 0)
      throw std::runtime_error("rank " + std::to_string(rank) + " cannot be started: " + std::strerror(errno));
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);  // the parent ended before the call
      ranks_.clear();                         // the other ranks' pipes
      down_write.reset();
      up_read.reset();
      ::_exit(rank_main(options, hosts_ ? &*hosts_ : nullptr, rank, down_read.get(), up_write.get()));
    }
    ranks_.push_back({child, std::move(down_write), std::move(up_read), {}, 0});
  }

  std::size_t running() const {
    std::size_t count = 0;
    for (const RankProcess& rank : ranks_) count += rank.ended() ? 0 : 1;
    return count;
  }

  // False when a rank has failed and the grace period is over.
  bool wait_for_input() {
    std::vector<pollfd> watched;
    std::vector<RankProcess*> whose;
    for (RankProcess& rank : ranks_) {
      if (rank.ended()) continue;
      watched.push_back({rank.up.get(), POLLIN, 0});
      whose.push_back(&rank);
    }
    int timeout_ms = -1;
    if (!well_) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(give_up_ - Clock::now()).count();
      if (left <= 0) return false;
      timeout_ms = static_cast<int>(left);
    }
    if (::poll(watched.data(), watched.size(), timeout_ms) < 0) return errno == EINTR;
    for (std::size_t i = 0; i < watched.size(); ++i)
      if (watched[i].revents != 0) read_from(*whose[i]);
    return true;
  }

  void read_from(RankProcess& rank) {
    std::byte piece[4096];
    const ssize_t count = ::read(rank.up.get(), piece, sizeof piece);
    if (count > 0)
      rank.received.insert(rank.received.end(), piece, piece + count);
    else if (count == 0 || errno != EINTR)
      on_end(rank);
  }

  void on_end(RankProcess& rank) {
    rank.up.reset();
    int status = 0;
    while (::waitpid(rank.process, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    // A rank that exits has printed the reason itself.
    if (WIFSIGNALED(status))
      std::fprintf(stderr, "rank %td was ended by signal %d (%s)\n", &rank - ranks_.data(), WTERMSIG(status),
                   ::strsignal(WTERMSIG(status)));
    if (well_) give_up_ = Clock::now() + kGrace;
    well_ = false;
  }

  void pass_on_id() {
    ncclUniqueId id;
    if (id_passed_on_ || !ranks_.front().take(id)) return;
    id_passed_on_ = true;
    // A failed write means that the rank has ended, which its other pipe will show.
    for (const RankProcess& rank : ranks_) write_all(rank.down.get(), &id, sizeof id);
  }

  bool report_row() {
    if (!id_passed_on_ || !well_ || reported_ == rows_.size()) return false;
    for (const RankProcess& rank : ranks_)
      if (rank.received.size() - rank.taken < sizeof(Measurement)) return false;
    std::vector<Measurement> measurements(ranks_.size());
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) ranks_[rank].take(measurements[rank]);
    report_.add(rows_[reported_], measurements);
    ++reported_;
    report_.progress(reported_, rows_.size());
    return true;
  }

  void end_all() {
    for (RankProcess& rank : ranks_) {
      if (rank.ended()) continue;
      ::kill(rank.process, SIGKILL);
      rank.up.reset();
      while (::waitpid(rank.process, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
  }

  std::optional<PracticeHosts> hosts_;
  std::vector<Row> rows_;
  PerfReport& report_;
  std::vector<RankProcess> ranks_;
  std::size_t reported_ = 0;
  bool id_passed_on_ = false;
  bool well_ = true;
  Clock::time_point give_up_;
};

}  // namespace

bool measure_in_processes(const PerfOptions& options, PerfReport& report) {
  std::fflush(nullptr);  // every rank would print buffered output
  ::signal(SIGPIPE, SIG_IGN);
  return RankProcesses(options, report).run();
}

}  // namespace sccl::tools
