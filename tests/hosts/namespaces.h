// Hosts made of namespaces: each has a network, a host name and System V objects of its own, and interfaces eth0, eth1,
// ... on switches in one more namespace: all eth0 on one, all eth1 on another. Needs root.
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
  // `interfaces`: how many each host has.
  Hosts(std::vector<std::string> names, std::vector<int> interfaces, Family family = Family::ipv4);
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  int count() const { return static_cast<int>(names_.size()); }
  const std::string& name(int host) const { return names_[static_cast<std::size_t>(host)]; }
  std::string address(int host, int interface = 0) const;

  // Runs a shell command in the host's network; its output.
  std::string run(int host, const std::string& command) const;
  // Pulls or plugs the cable.
  void set_link(int host, bool up, int interface = 0) const;
  // Nothing that `from` sends arrives at `to` any more, and nobody is told.
  void block(int from, int to) const;
  void unblock(int from, int to) const;
  // What `from` sends to `to` leaves by a second interface, eth1, and answers still come by the first one (IPv4).
  void add_detour(int from, int to) const;
  // Bounds what the host sends over each interface.
  void set_rate(int host, const std::string& rate) const;
  // Packets of more than 1200 bytes that the host sends are lost, and nobody is told, as on a path with a smaller MTU.
  void lose_long_packets(int host) const;
  // For the calling process, which is single-threaded, and its children: it is on this host from now on.
  void enter(int host) const;

 private:
  std::string space(int host) const;
  std::string port(int host, int interface) const;
  std::string adding_interface(int host, int interface) const;

  std::vector<std::string> names_;
  std::vector<int> interfaces_;
  Family family_;
  std::string prefix_;
};

}  // namespace hosts_test
