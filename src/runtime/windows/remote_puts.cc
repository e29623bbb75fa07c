#include "runtime/windows/remote_puts.h"

namespace sccl::runtime {
namespace {

// In between, this thread has the engine.
class HeldEngine {
 public:
  explicit HeldEngine(NetTransport& net) : net_(net) { net_.enter(); }
  ~HeldEngine() { net_.leave(); }
  HeldEngine(const HeldEngine&) = delete;
  HeldEngine& operator=(const HeldEngine&) = delete;

 private:
  NetTransport& net_;
};

// A put that does not come to its end is given up, so that nothing reads its data any more.
class BegunPut {
 public:
  BegunPut(OutgoingPuts& puts, const Put& put) : puts_(puts) { puts_.begin(put); }
  ~BegunPut() {
    if (puts_.has_news()) puts_.give_up();
  }
  BegunPut(const BegunPut&) = delete;
  BegunPut& operator=(const BegunPut&) = delete;
  bool is_sent() const { return !puts_.has_news(); }

 private:
  OutgoingPuts& puts_;
};

}  // namespace

void RemotePuts::put(const PutRequest& request, const char* purpose, const std::function<void()>& check) {
  const Rank peer = request.to.peer;
  Put put{request.data, 0, request.offset, signal_number(request.to.signal, request.to.context)};
  if (request.window != nullptr) put.window = request.window->number;
  const HeldEngine held(net_);
  net_.use(peer);
  const BegunPut begun(net_.link(peer).puts(), put);
  drive_until(purpose, {peer}, [&] {
    if (begun.is_sent()) return true;
    check();
    return false;
  });
}

void RemotePuts::wait_until(const char* purpose, const std::vector<Rank>& ranks, const std::function<bool()>& done) {
  const HeldEngine held(net_);
  drive_until(purpose, ranks, done);
}

void RemotePuts::drive_until(const char* purpose, const std::vector<Rank>& ranks, const std::function<bool()>& done) {
  const ControlAllGather::Sleeper sleeper{[&] { net_.turns().sleep(); }, [&] { net_.turns().wake(); }};
  const auto turn = [&] {
    net_.send(NetTransport::Tails::when_wanted);
    if (done()) return true;
    net_.receive();
    if (done()) return true;
    check_links(purpose, ranks);
    return false;
  };
  control_all_gather_.wait_until(purpose, ranks, Deadline::never(), turn, &sleeper, ControlAllGather::Revoked::is_gone);
}

void RemotePuts::check_links(const char* purpose, const std::vector<Rank>& ranks) const {
  for (const Rank rank : ranks)
    if (const NetTransport::Failure* const failure = net_.failure(rank)) failure->check(purpose);
}

}  // namespace sccl::runtime
