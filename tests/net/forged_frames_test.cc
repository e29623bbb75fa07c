// What the transport between hosts does with frames that no rank would send: the link ends, with a text that names rank
// and host, and nothing is written but free slots.
#include <algorithm>

#include "net/net_rank.h"

using namespace net_test;

namespace {

// Rank 1 by hand: it can connect and send what it likes.
class Forger {
 public:
  Forger(World& world, const NamedEngine& engine) : net_(engine.open()) {
    const int hosts[] = {0, 1};
    addresses_ = std::make_unique<NetAddresses>(*net_, 1, hosts);
    world.blobs[1] = addresses_->own();
    world.meet(world.ranks);
    addresses_->set_all(world.blobs);
  }

  void connect() {
    const auto connector = net_->connect(0, addresses_->of(0));
    const auto limit = Deadline::in(std::chrono::seconds(20));
    while (!sender_) {
      if (limit.passed()) throw std::runtime_error("no connection");
      net_->progress();
      sender_ = connector->poll();
    }
  }

  void send(const std::vector<std::byte>& message) {
    const auto memory =
        sender_->register_memory(const_cast<std::byte*>(message.data()), message.size(), MemoryKind::host);
    net::Request request;
    const auto limit = Deadline::in(std::chrono::seconds(20));
    while (!request || !sender_->test(request)) {
      if (limit.passed()) throw std::runtime_error("the message does not leave");
      net_->progress();
      if (!request) request = sender_->isend(message.data(), message.size(), *memory);
    }
  }
  void progress() { net_->progress(); }
  // Rank 0 connects back.
  void accept() {
    if (!receiver_) receiver_ = addresses_->accept().receiver;
  }

 private:
  std::unique_ptr<Net> net_;
  std::unique_ptr<NetAddresses> addresses_;
  std::unique_ptr<net::Sender> sender_;
  std::unique_ptr<net::Receiver> receiver_;
};

struct Forged {
  RecordHead head;
  std::size_t payload = 0;
};

std::vector<std::byte> frame_of(const std::vector<Forged>& records, u32 number, u64 nonce = kNonce) {
  std::vector<std::byte> memory(kFrameBytes);
  FrameWriter writer(memory, nonce, number);
  for (Forged record : records) {
    record.head.bytes = static_cast<u32>(record.payload);
    std::byte* const payload = writer.append(record.head);
    std::fill(payload, payload + record.payload, std::byte{0xee});
  }
  const auto whole = writer.finish();
  return {whole.begin(), whole.end()};
}

RecordHead record(RecordType type, int kind, u64 position, u64 count, u32 offset = 0, std::uint8_t incomplete = 0) {
  RecordHead head;
  head.type = type;
  head.kind = static_cast<std::uint8_t>(kind);
  head.position = position;
  head.count = count;
  head.offset = offset;
  head.incomplete = incomplete;
  return head;
}

// The window of rank 0.
constexpr u64 kWindow = 5;
constexpr std::size_t kWindowBytes = 1000;

RecordHead put_record(u64 window, u64 offset, u32 signal) {
  RecordHead head = record(RecordType::put, 0, offset, window);
  head.signature = signal;
  return head;
}

std::vector<std::byte> hello(int rank = 1, u64 nonce = kNonce) { return frame_of({{hello_of(rank)}}, 0, nonce); }

u32 depth_of(const sccl::kernels::HostConnection& end) {
  return end.short_bytes > 0 ? device::kShortSlotCount : end.depth;
}

// What rank 0 comes to think of rank 1, which sends these frames after its hello.
std::string verdict(const NamedEngine& engine, const std::vector<std::vector<std::byte>>& frames) {
  World world(2);
  std::string text;
  std::atomic<bool> done{false};
  on_ranks(world, [&](Rank rank) {
    if (rank == 1) {
      Forger forger(world, engine);
      forger.connect();
      forger.send(hello());
      for (const auto& frame : frames) forger.send(frame);
      while (!done && !world.failed) {
        forger.progress();
        forger.accept();
      }
      return;
    }
    NetRank self(world, rank, engine);
    std::vector<std::byte> window(kWindowBytes);
    self.transport->memory().windows.open(kWindow, window.data(), window.size());
    const auto limit = Deadline::in(std::chrono::seconds(20));
    while (!done) {
      self.transport->enter();
      if (const auto* failure = self.transport->failure(1)) {
        text = failure->text;
        done = true;
      }
      self.transport->receive();
      self.transport->send(NetTransport::Tails::all);
      self.transport->leave();
      if (limit.passed()) done = true;
    }
    self.transport->memory().windows.close_all();
    if (window != std::vector<std::byte>(kWindowBytes)) throw std::runtime_error("written into the window");
    // Nothing was taken for a message.
    for (const auto& end : self.ends)
      if (end.ring != nullptr)
        for (u64 at = 0; at < device::kMostDepth; ++at)
          if (at >= depth_of(end) && end.ring->headers[at].flag != 0)
            throw std::runtime_error("written behind the ring");
  });
  return text;
}

std::vector<Forged> many(std::size_t count, const Forged& first) {
  std::vector<Forged> records(count, first);
  for (std::size_t at = 0; at < count; ++at) records[at].head.position += at;
  return records;
}

}  // namespace

TEST_CASE("a frame that does not fit the state of a link ends it, with rank and host in the text") {
  struct Bad {
    const char* what;
    std::vector<std::byte> frame;
    const char* text;
  };
  const auto cut = [](std::vector<std::byte> frame, std::size_t bytes) {
    frame.resize(frame.size() - bytes);
    return frame;
  };
  const auto said = [](std::vector<std::byte> frame, std::uint32_t bytes) {
    std::memcpy(frame.data() + offsetof(FrameHead, bytes), &bytes, sizeof bytes);
    return frame;
  };
  const auto longer_record = [](std::vector<std::byte> frame, std::uint32_t bytes) {
    std::memcpy(frame.data() + sizeof(FrameHead) + offsetof(RecordHead, bytes), &bytes, sizeof bytes);
    return frame;
  };
  constexpr u64 kLines = 4 * device::kInlineLines;
  const auto slot = frame_of({{record(RecordType::slot, 0, 0, 64), 64}}, 1);
  const std::vector<Bad> all{
      {"another nonce", frame_of({{record(RecordType::slot, 0, 0, 64), 64}}, 1, kNonce + 1), "another communicator"},
      {"another number", frame_of({{record(RecordType::slot, 0, 0, 64), 64}}, 2), "frame 2 came"},
      {"cut", cut(slot, 8), "its head says"},
      {"cut and said so", said(cut(slot, 8), static_cast<u32>(slot.size() - 8)), "bytes came in a frame"},
      {"half a record", said(cut(slot, 80), static_cast<u32>(slot.size() - 80)), "middle of a record"},
      {"a record longer than its frame", longer_record(slot, 1u << 31), "bytes came in a frame"},
      {"a record as long as there are numbers", longer_record(slot, ~0u), "bytes came in a frame"},
      {"nothing", {}, "bytes came, 16 is the least"},
      {"a later message", frame_of({{record(RecordType::slot, 0, 1, 64), 64}}, 1), "message 1 came where message 0"},
      {"too many messages", frame_of(many(17, {record(RecordType::slot, 1, 0, 8), 8}), 1), "full ring of 16"},
      {"too many long messages", frame_of(many(5, {record(RecordType::announcement, 1, 0, kSlotBytes), 0}), 1),
       "full ring of 4"},
      {"too long a message", frame_of({{record(RecordType::slot, 2, 0, kSlotBytes / 4 + 8), kSlotBytes / 4 + 8}}, 1),
       "for a slot of"},
      {"too long a payload", frame_of({{record(RecordType::announcement, 0, 0, ~u64{0})}}, 1), "for a slot of"},
      {"a part that does not begin where the last ended", frame_of({{record(RecordType::slot, 0, 0, 64, 8), 8}}, 1),
       "byte 8 of message 0"},
      {"a part of another message than the one begun",
       frame_of({{record(RecordType::slot, 0, 0, 64, 0, 1), 32}, {record(RecordType::slot, 0, 1, 64, 32), 32}}, 1),
       "message 1 came where message 0"},
      {"a message announced in the middle of one",
       frame_of({{record(RecordType::slot, 0, 0, 64, 0, 1), 32}, {record(RecordType::announcement, 0, 0, 64)}}, 1),
       "byte 0 of message 0 came where byte 32"},
      {"more of a message than said", frame_of({{record(RecordType::slot, 0, 0, 64), 72}}, 1), "of a message of 64"},
      {"less of a message than said", frame_of({{record(RecordType::slot, 0, 0, 64), 32}}, 1), "of a message of 64"},
      {"a whole message that says it is not", frame_of({{record(RecordType::slot, 0, 0, 64, 0, 1), 64}}, 1),
       "of a message of 64"},
      {"no such kind", frame_of({{record(RecordType::slot, 9, 0, 8), 8}}, 1), "kind 9"},
      {"no such record", frame_of({{record(static_cast<RecordType>(99), 0, 0, 0), 8}}, 1), "type 99"},
      {"a second hello", frame_of({{hello_of(1)}}, 1), "has no place"},
      {"later lines", frame_of({{record(RecordType::lines, 0, 1, 2), 64}}, 1), "where line 0+0"},
      {"lines that end first", frame_of({{record(RecordType::lines, 0, 0, 0), 64}}, 1), "came, 0 are consumed"},
      {"lines behind the ring", frame_of({{record(RecordType::lines, 0, 0, kLines + 1), 64}}, 1), "are consumed"},
      {"a full ring of lines", frame_of({{record(RecordType::lines, 0, 0, kLines), 64}}, 1), "are consumed"},
      {"more lines than said", frame_of({{record(RecordType::lines, 0, 0, 1), 128}}, 1), "bytes of lines"},
      {"fewer lines than said", frame_of({{record(RecordType::lines, 0, 0, 3), 128}}, 1), "bytes of lines"},
      {"half a line", frame_of({{record(RecordType::lines, 0, 0, 1), 32}}, 1), "bytes of lines"},
      {"no line", frame_of({{record(RecordType::lines, 0, 0, 1, 0, 1), 0}}, 1), "bytes of lines"},
      {"lines that never end", frame_of({{record(RecordType::lines, 0, 0, 1, 0, 1), 64}}, 1), "bytes of lines"},
      {"a tail of what was not sent", frame_of({{record(RecordType::tails, 0, 1, 0)}}, 1), "reported as consumed"},
      {"a tail of lines not sent", frame_of({{record(RecordType::tails, 0, 0, 64)}}, 1), "reported as consumed"},
      {"a put without a window", frame_of({{put_record(1, 0, 0), 8}}, 1), "does not have any more"},
      {"a put behind its window", frame_of({{put_record(kWindow, 1001, 0), 8}}, 1), "offset 1001 of a window of 1000"},
      {"a put that leaves its window", frame_of({{put_record(kWindow, 996, 0), 8}}, 1), "a put of 8 bytes"},
      {"a put behind all addresses", frame_of({{put_record(kWindow, ~u64{0}, 0), 8}}, 1), "a put of 8 bytes"},
      {"a signal that there is not", frame_of({{put_record(kWindow, 0, 64), 8}}, 1), "signal number 64"},
      {"an address nobody asked for", frame_of({{record(RecordType::bulk_address, 0, 0, 0), 128}}, 1), "no place"},
  };
  for (const NamedEngine& engine : two_engines())
    for (const Bad& bad : all) {
      INFO(engine.name << ": " << bad.what);
      const std::string text = verdict(engine, {bad.frame});
      CHECK(text.find("rank 0 lost its connection to rank 1 on host host1") != std::string::npos);
      CHECK_THAT(text, Catch::Contains(bad.text));
    }
}

TEST_CASE("a message longer than any frame ends the link") {
  for (const NamedEngine& engine : two_engines()) {
    INFO(engine.name);
    CHECK_THAT(verdict(engine, {std::vector<std::byte>(kMostFrameBytes + 1)}), Catch::Contains("host1"));
  }
}

TEST_CASE("strangers are dropped, and ranks meet all the same") {
  for (const NamedEngine& engine : two_engines())
    for (const auto& greeting : {hello(1, kNonce + 1), hello(0), hello(7), hello(-1),
                                 frame_of({{record(RecordType::slot, 0, 0, 0), 0}}, 0), std::vector<std::byte>(20)}) {
      INFO(engine.name);
      World world(2);
      std::atomic<int> wrong{0};
      on_ranks(world, [&](Rank rank) {
        std::unique_ptr<Forger> forger;
        NetRank self(world, rank, engine);
        if (rank == 1) {
          // From the engine of a stranger to rank 0's listener.
          World other(2);
          other.blobs = world.blobs;
          other.written = 1;
          forger = std::make_unique<Forger>(other, engine);
          try {
            forger->connect();
            forger->send(greeting);
            for (int turn = 0; turn < 1000; ++turn) forger->progress();
          } catch (const sccl::Error& error) {
            // The ranks may have met before: then nobody listens any more.
            if (error.code() != ErrorCode::remote_error) throw;
          }
        }
        const auto schedule = planners::find("one-hop")->plan(topology::host(2), Collective::allreduce, 0);
        const schedule::Program program = schedule::prepare(*schedule, device::kSlotCount);
        std::vector<u32> input(100, static_cast<u32>(rank) + 1), output(100);
        self.run({*schedule, program, MemoryLayout::RingKind::collective, device::Protocol::simple, kSlotBytes}, 7,
                 input, output);
        if (output != std::vector<u32>(100, 3)) ++wrong;
        self.transport->drain(std::chrono::seconds(20), none_gone);
      });
      CHECK(wrong == 0);
    }
}

TEST_CASE("a peer that closes in the middle of a call is named, with its host") {
  // UCX keeps the sockets of a worker that was not settled until its process ends (connection_test.cc).
  for (const NamedEngine& engine : {two_engines().front()})
    for (const std::size_t count : {100ul, 500000ul}) {
      INFO(engine.name << ", " << count);
      World world(2);
      std::string text;
      on_ranks(world, [&](Rank rank) {
        NetRank self(world, rank, engine);
        const auto schedule = planners::find("one-hop")->plan(topology::host(2), Collective::allreduce, 0);
        const schedule::Program program = schedule::prepare(*schedule, device::kSlotCount);
        std::vector<u32> input(count), output(count);
        const NetRank::Call call{*schedule, program, MemoryLayout::RingKind::collective, device::Protocol::simple,
                                 kSlotBytes};
        self.run(call, 1, input, output);
        if (rank == 1) self.transport->drain(std::chrono::seconds(20), none_gone);
        if (rank == 1) return;  // drops everything, while rank 0 is in the next call
        try {
          self.run(call, 2, input, output);
        } catch (const sccl::Error& error) {
          text = error.what();
        }
      });
      CHECK_THAT(text, Catch::Contains("rank 0 lost its connection to rank 1 on host host1"));
    }
}
