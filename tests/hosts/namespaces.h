// Hosts made of namespaces: each has a network, a host name and System V objects of its own, and one interface on a
// switch that is a namespace, too. Needs root.
#pragma once

#include <string>
#include <vector>

namespace hosts_test {

// Why hosts cannot be made here; "" when they can.
std::string why_not();

enum class Family { ipv4, ipv6 };

class Hosts {
 public:
  // Their names are host names; equal ones are allowed.
  explicit Hosts(std::vector<std::string> names, Family family = Family::ipv4);
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  int count() const { return static_cast<int>(names_.size()); }
  const std::string& name(int host) const { return names_[static_cast<std::size_t>(host)]; }
  std::string address(int host) const;

  // Runs a shell command in the host's network; its output.
  std::string run(int host, const std::string& command) const;
  // Pulls or plugs the cable.
  void set_link(int host, bool up) const;
  // Nothing that `from` sends arrives at `to` any more, and nobody is told.
  void block(int from, int to) const;
  // What `from` sends to `to` leaves by a second interface, eth1, and answers still come by the first one (IPv4).
  void add_detour(int from, int to) const;
  // Bounds what the host sends.
  void set_rate(int host, const std::string& rate) const;
  // For the calling process, which is single-threaded, and its children: it is on this host from now on.
  void enter(int host) const;

 private:
  std::string space(int host) const;

  std::vector<std::string> names_;
  Family family_;
  std::string prefix_;
};

}  // namespace hosts_test
