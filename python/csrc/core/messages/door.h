// Connections between ranks of different hosts: a thread that listens at this rank's addresses, dials other ranks and
// sees through the introductions, so that a rank which computes can still be reached. What comes of it is taken by
// Messages, whose descriptor it wakes.
#pragma once

#include <chrono>
#include <deque>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "messages/descriptor.h"
#include "messages/interfaces.h"
#include "messages/introduction.h"
#include "watchdog.h"

namespace sccl_torch {

class Door {
 public:
  // Either a connection, or the news that there is none with `peer` any more.
  struct Arrival {
    int peer = -1;
    bool dialled = false;  // by this rank: the connection takes its frames
    Descriptor socket;
    std::string failure;
    bool unreachable = false;  // the peer may be there, but this rank cannot reach it
  };

  // Listens at `addresses`, whose ports are chosen here. `host_timeout` is the time after which a silent host is lost;
  // `wake` an event descriptor. Throws Failure.
  Door(const Secret& secret, int rank, int ranks, std::vector<SocketAddress> addresses,
       std::chrono::milliseconds host_timeout, int wake);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  const std::vector<SocketAddress>& addresses() const { return addresses_; }

  // All addresses at a time: one that swallows packets delays nobody.
  void dial(int peer, std::vector<SocketAddress> addresses);
  // The connection to `peer` has ended. That comes back as an arrival after all connections that are being accepted
  // from it: what a peer sent before it left is still to be read.
  void tell_end(int peer, std::string reason);

  std::vector<Arrival> arrivals();

 private:
  struct Dialling {
    int peer = 0;
    std::string address;
    Descriptor socket;
    Clock::time_point deadline;  // for the connection; then the peer may take its time
    bool connected = false;
    Introduction introduction;
  };
  struct Accepting {
    Descriptor socket;
    Clock::time_point deadline;
    Introduction introduction;
  };
  struct Attempt {  // of dialling one peer
    int peer = 0;
    int open = 0;
    bool refused = false;
    std::string failures;
  };
  struct Order {
    int peer = 0;
    std::vector<SocketAddress> addresses;
    std::string end;
  };

  void run();
  void poll_once();
  void take_orders();
  void start(const Order& order);
  void accept_from(int listener);
  bool advance(Dialling& one);
  bool advance(Accepting& one);
  void fail(Dialling& one, int error);
  void conclude(int peer);
  void release_ends();
  void arrive(Arrival arrival);
  void ring() const;

  const Secret secret_;
  const int rank_;
  const int ranks_;
  const std::chrono::milliseconds host_timeout_;
  const int wake_;
  std::vector<SocketAddress> addresses_;
  std::vector<Descriptor> listeners_;
  Descriptor bell_;
  std::mutex mutex_;  // guards the next three
  std::deque<Order> orders_;
  std::vector<Arrival> arrivals_;
  bool ending_ = false;
  // The thread's own.
  std::list<Dialling> dialling_;
  std::list<Accepting> accepting_;
  std::list<Attempt> attempts_;
  std::vector<bool> accepted_;  // ranks from which a connection was accepted: each makes one
  std::vector<Arrival> ends_;
  std::thread thread_;
};

}  // namespace sccl_torch
