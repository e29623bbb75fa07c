#include "tools/launch/slow_link.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <random>
#include <span>
#include <stdexcept>

#include "base/fd.h"

namespace sccl::tools {
namespace {

using Clock = std::chrono::steady_clock;

// In which the kernel describes a packet before its first byte: struct virtio_net_hdr, whose header is C alone.
constexpr std::size_t kPrefixBytes = 10;
constexpr std::size_t kMostPacketBytes = 65536 + kPrefixBytes;
// What waits for the wire beyond this is dropped, as a switch would do.
constexpr std::size_t kMostWaitingBytes = std::size_t{1} << 20;
constexpr int kMostTurns = 64;            // of reading from one interface before others have theirs
constexpr std::size_t kDestination = 16;  // of an IPv4 header
constexpr std::size_t kHeaderBytes = 20;

struct Unit {
  const char* name;
  double factor;
};

template <std::size_t kCount>
double parse(const std::string& text, const std::array<Unit, kCount>& units, const char* what) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  if (error == std::errc() && value >= 0)
    for (const Unit& known : units)
      if (unit == known.name) return value * known.factor;
  throw std::invalid_argument("'" + text + "' is no " + what);
}

enum class Segments : std::uint8_t { joined, single };

// `joined`: what a connection has to send passes in pieces of up to 64 KiB, as to a NIC that cuts them itself. Packet
// by packet the switch takes much of a core that the ranks need.
FileDescriptor make_interface(int space, Segments segments) {
  FileDescriptor made;
  if (::setns(space, CLONE_NEWNET) == 0) made = FileDescriptor(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  std::strncpy(request.ifr_name, "eth0", sizeof request.ifr_name - 1);
  if (!made.valid() || ::ioctl(made.get(), TUNSETIFF, &request) != 0) return FileDescriptor();
  int prefix_bytes = kPrefixBytes;
  const unsigned long offload = segments == Segments::joined ? TUN_F_CSUM | TUN_F_TSO4 : 0;
  if (::ioctl(made.get(), TUNSETVNETHDRSZ, &prefix_bytes) != 0 || ::ioctl(made.get(), TUNSETOFFLOAD, offload) != 0)
    return FileDescriptor();
  return made;
}

class Switch {
 public:
  Switch(std::vector<FileDescriptor> ports, const LinkShape& shape) : shape_(shape), ports_(ports.size()) {
    for (std::size_t i = 0; i < ports.size(); ++i) ports_[i].interface = std::move(ports[i]);
  }

  [[noreturn]] void run() {
    while (true) {
      sleep();
      for (Port& port : ports_) take(port);
      for (Port& port : ports_) deliver(port);
    }
  }

 private:
  struct Packet {
    Clock::time_point due;
    std::vector<std::byte> bytes;
  };
  struct Port {
    FileDescriptor interface;
    Clock::time_point busy_until{};  // with packets that are on the wire already
    std::deque<Packet> packets;      // that it has sent; in order of `due`
  };

  void sleep() {
    std::vector<pollfd> entries;
    auto first = Clock::time_point::max();
    for (const Port& port : ports_) {
      entries.push_back({port.interface.get(), POLLIN, 0});
      if (!port.packets.empty()) first = std::min(first, port.packets.front().due);
    }
    const auto left = first == Clock::time_point::max() ? std::chrono::nanoseconds(std::chrono::seconds(1))
                                                        : std::chrono::nanoseconds(first - Clock::now());
    const long long count = std::max<long long>(0, left.count());
    const timespec limit{static_cast<time_t>(count / 1000000000), static_cast<long>(count % 1000000000)};
    ::ppoll(entries.data(), entries.size(), &limit, nullptr);
  }

  void take(Port& port) {
    for (int turn = 0; turn < kMostTurns; ++turn) {
      const ssize_t count = ::read(port.interface.get(), buffer_.data(), buffer_.size());
      if (count <= static_cast<ssize_t>(kPrefixBytes)) return;
      const auto now = Clock::now();
      if (is_lost()) continue;
      const auto bytes = static_cast<std::size_t>(count) - kPrefixBytes;
      const auto begin = std::max(port.busy_until, now);
      if (shape_.bits_per_s > 0) {
        const double waiting = std::chrono::duration<double>(begin - now).count() * shape_.bits_per_s / 8;
        if (waiting > static_cast<double>(kMostWaitingBytes)) continue;
        port.busy_until = begin + std::chrono::nanoseconds(
                                      static_cast<long long>(static_cast<double>(bytes) * 8e9 / shape_.bits_per_s));
      } else {
        port.busy_until = begin;
      }
      const auto delay = std::chrono::nanoseconds(static_cast<long long>(shape_.delay_us * 1e3));
      port.packets.push_back({port.busy_until + delay, {buffer_.begin(), buffer_.begin() + count}});
    }
  }

  void deliver(const Packet& packet) {
    const auto ip = std::span(packet.bytes).subspan(kPrefixBytes);
    if (ip.size() < kHeaderBytes || static_cast<unsigned>(ip[0]) >> 4 != 4) return;
    const auto host = static_cast<std::size_t>(ip[kDestination + 3]) - 1;
    if (host >= ports_.size()) return;
    // What an interface does not take is lost, as on a wire.
    [[maybe_unused]] const ssize_t written =
        ::write(ports_[host].interface.get(), packet.bytes.data(), packet.bytes.size());
  }

  void deliver(Port& port) {
    for (const auto now = Clock::now(); !port.packets.empty() && port.packets.front().due <= now;
         port.packets.pop_front())
      deliver(port.packets.front());
  }

  bool is_lost() { return shape_.loss > 0 && std::uniform_real_distribution<>()(random_) < shape_.loss; }

  LinkShape shape_;
  std::vector<Port> ports_;
  std::mt19937_64 random_{4711};  // the same losses every time
  std::array<std::byte, kMostPacketBytes> buffer_{};
};

}  // namespace

double parse_delay_us(const std::string& text) {
  constexpr std::array<Unit, 3> kUnits{{{"us", 1}, {"ms", 1e3}, {"s", 1e6}}};
  return parse(text, kUnits, "delay: write it as 500us, 2ms or 1s");
}

double parse_rate(const std::string& text) {
  constexpr std::array<Unit, 3> kUnits{{{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}}};
  const double rate = parse(text, kUnits, "rate: write it as 100mbit or 1gbit");
  if (rate < 8000) throw std::invalid_argument("'" + text + "' is no rate: at least 8kbit");
  return rate;
}

double parse_loss(const std::string& text) {
  constexpr std::array<Unit, 1> kUnits{{{"%", 0.01}}};
  const double loss = parse(text, kUnits, "loss: write it as 0.1%");
  if (loss >= 1) throw std::invalid_argument("'" + text + "' is no loss: less than 100%");
  return loss;
}

SlowLink::SlowLink(const std::vector<int>& spaces, const LinkShape& shape) {
  int ready[2];
  if (::pipe2(ready, O_CLOEXEC) != 0) throw std::runtime_error("no pipe can be opened: raise ulimit -n");
  const FileDescriptor ready_read(ready[0]);
  FileDescriptor ready_write(ready[1]);
  const pid_t parent = ::getpid();
  process_ = ::fork();
  if (process_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    std::vector<FileDescriptor> ports;
    for (const int space : spaces) {
      // A packet that is lost is one that a wire would carry.
      ports.push_back(make_interface(space, shape.loss > 0 ? Segments::single : Segments::joined));
      if (!ports.back().valid()) ::_exit(1);
    }
    if (::write(ready_write.get(), "x", 1) != 1) ::_exit(1);
    Switch(std::move(ports), shape).run();
  }
  ready_write.reset();
  char mark = 0;
  if (process_ > 0 && ::read(ready_read.get(), &mark, 1) == 1) return;
  if (process_ > 0) ::waitpid(process_, nullptr, 0);
  throw std::runtime_error("--delay and --loss: no TUN interface can be made: run as root where /dev/net/tun is there");
}

SlowLink::~SlowLink() {
  if (process_ <= 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

}  // namespace sccl::tools
