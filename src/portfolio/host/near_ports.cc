#include "portfolio/host/near_ports.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "portfolio/links/outside.h"
#include "portfolio/links/shares.h"
#include "portfolio/links/ways.h"

namespace sccl::portfolio {
namespace {

constexpr int kLeastTurns = 4;  // of a device
constexpr int kMostTurns = 16;  // likewise
constexpr int kMostSweeps = 20;
constexpr double kLess = 1 - 1e-9;
// A use of a link as busy as the busiest one counts 16; each use counts this much besides, so that ways stay short.
constexpr double kUseWeight = 1e-3;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class NearPorts {
 public:
  NearPorts(const topology::Topology& links, const schedule::Schedule& between, std::span<const double> nics,
            double others)
      : devices_(links.ranks), ways_(with_outside(links, nics)), uses_(ways_), between_(at(devices_ * devices_)) {
    const int pieces = std::max(1, between.chunks / (devices_ * devices_));
    for (const schedule::Send& send : between.sends) {
      const int from = send.chunk % devices_;
      const int to = send.chunk / devices_ % devices_;
      for (const int resource : ways_.between(send.src, send.dst)) {
        if (send.chunk < devices_ * devices_) between_[at(from * devices_ + to)].push_back(resource);
        uses_.add(resource, 1.0 / pieces);
      }
    }
    const std::vector<int> ports = in_proportion({nics.begin(), nics.end()});
    for (int device = 0; device < devices_; ++device)
      if (nics[at(device)] > 0) ports_.push_back(device);
    // As many turns as let all ports be taken exactly in proportion.
    const int least = static_cast<int>(ports.size()) / std::gcd(devices_, static_cast<int>(ports.size()));
    turns_ = std::min(kMostTurns, least * ((kLeastTurns + least - 1) / least));
    weight_ = others / turns_;
    for (int device = 0; device < devices_; ++device)
      for (int turn = 0; turn < turns_; ++turn) {
        port_of_.push_back(ports[port_of_.size() % ports.size()]);
        use(device, port_of_.back(), weight_);
      }
  }

  void improve() {
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
      uses_.set_unit();
      bool better = false;
      bool gained = false;
      for (std::size_t one = 0; one < port_of_.size(); ++one) {
        if (one > 0 && alike(one - 1, one) && !gained) continue;
        gained = improve(one);
        better = better || gained;
      }
      if (!better) return;
    }
  }

  std::vector<std::vector<int>> found() const {
    std::vector<std::vector<int>> result;
    for (int device = 0; device < devices_; ++device) {
      const auto first = port_of_.begin() + device * turns_;
      std::vector<double> shares(at(devices_), 0);
      for (auto port = first; port != first + turns_; ++port) ++shares[at(*port)];
      result.push_back(in_proportion(shares));
    }
    return result;
  }

 private:
  // Visits what a block of a device passes on its way out over this port, and on its way in.
  template <typename Visit>
  void for_each_use(int device, int port, Visit&& visit) const {
    const int outside = devices_;
    for (const auto* way : {&between_[at(device * devices_ + port)], &ways_.between(port, outside),
                            &between_[at(port * devices_ + device)], &ways_.between(outside, port)})
      for (const int resource : *way) visit(resource);
  }

  void use(int device, int port, double more) {
    for_each_use(device, port, [&](int resource) { uses_.add(resource, more); });
  }

  double weight(int device, int port) const {
    double sum = 0;
    for_each_use(device, port, [&](int resource) { sum += uses_.weight(resource, weight_) + kUseWeight; });
    return sum;
  }

  bool improve(std::size_t place) {
    bool better = false;
    for (const int port : ports_) better = move(place, port) || better;
    bool gained = false;
    for (std::size_t other = 0; other < place; ++other) {
      if (other > 0 && alike(other - 1, other) && !gained) continue;
      gained = exchange(place, other);
      better = better || gained;
    }
    return better;
  }

  // What one of them cannot gain the other one cannot, either.
  bool alike(std::size_t a, std::size_t b) const { return device_of(a) == device_of(b) && port_of_[a] == port_of_[b]; }

  int device_of(std::size_t place) const { return static_cast<int>(place) / turns_; }

  bool move(std::size_t place, int port) {
    const int device = device_of(place);
    if (port_of_[place] == port) return false;
    use(device, port_of_[place], -weight_);
    const bool better = weight(device, port) < weight(device, port_of_[place]) * kLess;
    if (better) port_of_[place] = port;
    use(device, port_of_[place], weight_);
    return better;
  }

  bool exchange(std::size_t a, std::size_t b) {
    if (device_of(a) == device_of(b) || port_of_[a] == port_of_[b]) return false;
    // The second way is weighed while the first one is in use.
    const auto weigh = [&] {
      const double first = weight(device_of(a), port_of_[a]);
      use(device_of(a), port_of_[a], weight_);
      const double both = first + weight(device_of(b), port_of_[b]);
      use(device_of(b), port_of_[b], weight_);
      return both;
    };
    const auto take_back = [&] {
      use(device_of(a), port_of_[a], -weight_);
      use(device_of(b), port_of_[b], -weight_);
    };
    take_back();
    const double now = weigh();
    take_back();
    std::swap(port_of_[a], port_of_[b]);
    if (weigh() < now * kLess) return true;
    take_back();
    std::swap(port_of_[a], port_of_[b]);
    weigh();
    return false;
  }

  int devices_;
  Ways ways_;
  Uses uses_;
  std::vector<std::vector<int>> between_;  // by (from, to): what a block of a first piece passes
  std::vector<int> ports_;
  int turns_ = 1;
  double weight_ = 1;
  std::vector<int> port_of_;  // by device, then turn
};

}  // namespace

std::vector<std::vector<int>> near_ports(const topology::Topology& links, const schedule::Schedule& between,
                                         std::span<const double> nic_gbytes_per_s, double others) {
  NearPorts ports(links, between, nic_gbytes_per_s, others);
  ports.improve();
  return ports.found();
}

}  // namespace sccl::portfolio
