#include "runtime/transport/net/net_transport.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/settings/log.h"
#include "platform/host/fences.h"

namespace sccl::runtime {
namespace {

// Accepting costs a system call with some engines, and is rare.
constexpr std::size_t kPassesBetweenAccepts = 16;
constexpr std::size_t kMostGuests = 64;
constexpr std::chrono::milliseconds kReasonTime{500};
constexpr std::chrono::milliseconds kBetweenNotes{250};

}  // namespace

NetTransport::NetTransport(Setup setup)
    : setup_(std::move(setup)),
      memory_{WindowTable(*setup_.layout, setup_.own_memory), {}},
      remotes_(setup_.peers.hosts.size()) {
  const int ranks = static_cast<int>(setup_.peers.hosts.size());
  for (Rank peer = 0; peer < ranks; ++peer)
    if (reaches(peer))
      remote(peer).link = std::make_unique<Link>(
          Link::Setup{*setup_.peers.net, setup_.peers.addresses->device(), setup_.peers.nonce, setup_.rank, peer,
                      setup_.shape, memory_.windows, setup_.polling.look ? nullptr : &memory_.buffers});
  // Until the ends are connected nothing is published, and the thread finds nothing to do.
  thread_ = std::make_unique<ProgressThread>(
      ProgressThread::Work{[this] { return pass(); }, [this] { return setup_.peers.net->arm(); },
                           [this] {
                             host::full_fence();
                             setup_.bell->ring();
                           },
                           setup_.peers.net->wake_descriptor(), setup_.polling.busy, setup_.polling.begin});
}

NetTransport::~NetTransport() {
  thread_.reset();
  guests_.clear();
  remotes_.clear();
}

EndTraits NetTransport::traits(const EndRequest& request) const {
  return {Locality::remote, setup_.shape.kinds[static_cast<std::size_t>(request.kind)].slot_bytes, false, false};
}

void NetTransport::connect(const EndRequest& request, kernels::HostConnection& end) {
  thread_->enter();
  end = {};
  remote(request.peer).link->attach(request, end);
  end.peer_bell = &own_bell_;
  thread_->leave(ProgressThread::Left::nothing);
}

void NetTransport::leave() {
  const bool is_sent = rests_ != Rests::no || unsent().empty();
  thread_->leave(is_sent ? ProgressThread::Left::nothing : ProgressThread::Left::work);
}

void NetTransport::use(Rank peer) {
  Remote& with = remote(peer);
  if (!with.link || with.link->is_open() || with.failure) return;
  open_.push_back(peer);
  attempt(peer, [&] {
    const net::Handle& address = setup_.peers.addresses->of(peer);
    if (address.empty()) fail(ErrorCode::remote_error, "it gave no address at init");
    with.link->open(address);
    return true;
  });
}

// Whatever goes wrong with one peer ends the link with that one, and is told when a call waits for it.
template <typename Action>
bool NetTransport::attempt(Rank peer, Action&& action) {
  try {
    return action();
  } catch (const Error& error) {
    Remote& with = remote(peer);
    with.failure = Failure{fmt::format("rank {} lost its connection to rank {} on host {}: {}", setup_.rank, peer,
                                       setup_.peers.hosts[static_cast<std::size_t>(peer)], net::happened(error)),
                           std::chrono::steady_clock::now(), net::remedy(error)};
    log::info(log::Subsystem::net, "{}", with.failure->text);
    with.link->close();
    return true;
  }
}

bool NetTransport::receive() {
  setup_.peers.net->progress();
  bool any = false;
  for (const Rank peer : open_) any = attempt(peer, [&] { return remote(peer).link->receive(); }) || any;
  std::erase_if(open_, [&](Rank peer) { return remote(peer).failure.has_value(); });
  const bool accepts = ++passes_ % kPassesBetweenAccepts == 0;
  if (accepts) any = accept() || any;
  if (any || accepts) rests_ = Rests::no;
  return any;
}

bool NetTransport::send(Tails tails) {
  bool any = false;
  rests_ = tails == Tails::when_due ? Rests::until_due : Rests::until_wanted;
  for (const Rank peer : open_)
    any = attempt(peer,
                  [&] {
                    Link& link = *remote(peer).link;
                    const bool sent = link.send(tails);
                    if (!link.rests()) rests_ = Rests::no;
                    return sent;
                  }) ||
          any;
  return any;
}

bool NetTransport::accept() {
  try {
    if (guests_.size() < kMostGuests)
      if (auto accepted = setup_.peers.addresses->accept(); accepted.receiver)
        guests_.push_back(
            {std::make_unique<Guest>(std::move(accepted.receiver), setup_.peers.nonce), accepted.listener});
  } catch (const net::UnreachablePeer& error) {
    const Rank peer = setup_.peers.addresses->rank_at(error.address());
    if (peer == NetAddresses::kAnyone || !reaches(peer)) throw;
    if (!remote(peer).failure) attempt(peer, [&]() -> bool { throw error; });
  }
  return greet();
}

// Guests that turn out to be peers become links.
bool NetTransport::greet() {
  bool any = false;
  std::erase_if(guests_, [&](const Arrival& arrival) {
    const auto& guest = arrival.guest;
    try {
      const auto rank = guest->rank();
      if (!rank) return false;
      if (*rank < 0 || *rank >= static_cast<Rank>(remotes_.size()) || !remote(*rank).link)
        fail(ErrorCode::remote_error, "it says it is rank {}", *rank);
      setup_.peers.addresses->met(*rank);
      use(*rank);
      any = true;
      if (remote(*rank).failure) return true;
      attempt(*rank, [&] {
        remote(*rank).link->accept(guest->take_receiver());
        return true;
      });
    } catch (const Error& error) {
      log::info(log::Subsystem::net, "rank {} drops a connection that is none of its peers': {}", setup_.rank,
                error.what());
      setup_.peers.addresses->dropped(arrival.listener);
    }
    return true;
  });
  return any;
}

std::vector<Rank> NetTransport::unsent(Unsent which) {
  std::vector<Rank> peers;
  for (const Rank peer : open_)
    attempt(peer, [&] {
      Link& link = *remote(peer).link;
      const bool has_any = which == Unsent::all               ? !link.settled()
                           : which == Unsent::to_come_is_lost ? link.incoming().writes_buffers()
                                                              : link.reads_buffers();
      if (!has_any) return true;
      peers.push_back(peer);
      if (which == Unsent::of_buffers_is_lost)
        fail(ErrorCode::remote_error, "a call ended before its messages were sent");
      if (which == Unsent::to_come_is_lost) fail(ErrorCode::remote_error, "a call ended before its messages had come");
      return false;
    });
  return peers;
}

ProgressThread::Pass NetTransport::pass() {
  try {
    bool any = receive();
    if (setup_.polling.look) setup_.polling.look();
    any = send(Tails::all) || any;
    if (!any) any = accept();
    if (any) return ProgressThread::Pass::moved;
    if (const auto now = std::chrono::steady_clock::now(); now - noted_sent_ > kBetweenNotes) {
      noted_sent_ = now;
      note_sent();
    }
    return unsent().empty() && guests_.empty() ? ProgressThread::Pass::settled : ProgressThread::Pass::waits;
  } catch (const Error&) {
    // The engine as a whole: every link is lost.
    for (const Rank peer : std::vector<Rank>(open_)) attempt(peer, []() -> bool { throw; });
    open_.clear();
    return ProgressThread::Pass::moved;
  }
}

void NetTransport::note_sent() {
  if (setup_.sent == nullptr) return;
  for (const Rank peer : open_)
    if (const OutgoingMessages& to = remote(peer).link->outgoing(); !to.all_confirmed())
      setup_.sent->note(peer, to.published());
}

void NetTransport::Failure::check(const std::string& call) const {
  if (std::chrono::steady_clock::now() - since <= kReasonTime) return;
  fail(ErrorCode::remote_error, "{} in {}: look at that rank's output, and at the network between the hosts{}", text,
       call, remedy.empty() ? "" : "; " + remedy);
}

const NetTransport::Failure* NetTransport::failure(Rank peer) const {
  const auto& failure = remotes_[static_cast<std::size_t>(peer)].failure;
  return failure ? &*failure : nullptr;
}

void NetTransport::drain(std::chrono::milliseconds longest, const std::function<bool(Rank)>& is_gone) {
  thread_->enter();
  if (setup_.polling.look) setup_.polling.look();
  const auto waits = [&](Rank peer) {
    Remote& with = remote(peer);
    const bool has_sent = with.link->outgoing().has_sent() || with.link->puts().has_sent();
    return !with.failure && has_sent && !with.link->parted() && !is_gone(peer);
  };
  for (const Rank peer : open_)
    if (waits(peer)) remote(peer).link->say_farewell();
  std::vector<Rank> missing = open_;
  const Deadline deadline = Deadline::in(longest);
  for (int idle = 0;;) {
    const auto moved = pass();
    std::erase_if(missing, [&](Rank peer) { return !waits(peer); });
    if (missing.empty() || deadline.passed()) break;
    if (moved == ProgressThread::Pass::moved) {
      idle = 0;
      continue;
    }
    pollfd descriptor{setup_.peers.net->wake_descriptor(), POLLIN, 0};
    if (++idle < 100 || (descriptor.fd >= 0 && !setup_.peers.net->arm()))
      std::this_thread::yield();
    else
      ::poll(&descriptor, descriptor.fd >= 0 ? 1 : 0, descriptor.fd >= 0 ? 10 : 1);
  }
  if (std::any_of(open_.begin(), open_.end(), is_gone)) setup_.peers.net->note_lost_peer();
  const auto fine = [](const Remote& one) { return !one.failure; };
  if (missing.empty() && guests_.empty() && std::all_of(remotes_.begin(), remotes_.end(), fine))
    setup_.peers.net->settle();
  if (!missing.empty())
    log::info(log::Subsystem::net, "rank {} leaves after {} ms before rank {} has said that all messages arrived",
              setup_.rank, longest.count(), fmt::join(missing, ", "));
  thread_->leave(ProgressThread::Left::nothing);
}

}  // namespace sccl::runtime
