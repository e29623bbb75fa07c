// A root meets strangers, and ranks that know the secret and say whatever they like. It must not crash, not keep what
// strangers send, answer nobody before a valid introduction, and be done when all ranks are.
//
// The input is a script of connections: each command is a byte of what to do and a byte of which connection, and takes
// its operands from what follows.
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/bootstrap/id_format.h"
#include "runtime/bootstrap/meeting/root.h"

namespace {

using namespace sccl;
using namespace sccl::runtime;
using namespace sccl::runtime::wire;

constexpr Secret kSecret{0x0123456789abcdef, 0xfedcba9876543210};
constexpr std::size_t kConnections = 4;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

class Script {
 public:
  Script(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool over() const { return at_ >= size_; }
  std::uint8_t byte() { return over() ? 0 : data_[at_++]; }
  template <typename T>
  T value() {
    T read{};
    const std::size_t count = std::min(sizeof read, size_ - at_);
    std::memcpy(&read, data_ + at_, count);
    at_ += count;
    return read;
  }
  std::span<const std::byte> bytes(std::size_t count) {
    const std::size_t given = std::min(count, size_ - at_);
    const auto read = std::as_bytes(std::span(data_ + at_, given));
    at_ += given;
    return read;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

struct Caller {
  FileDescriptor socket;
  Nonce nonce{};  // the root's, once it has greeted
  bool introduced = false;
};

class Play {
 public:
  void perform(Script& script) {
    while (!script.over() && ++commands_ < 200) command(script);
    for (Caller& caller : callers_) caller.socket.reset();
    for (int i = 0; i < 4; ++i) root_.turn();
  }

 private:
  void command(Script& script) {
    const std::uint8_t what = script.byte();
    Caller& caller = callers_[script.byte() % kConnections];
    switch (what % 8) {
      case 0:
        connect(caller);
        break;
      case 1:
        greet(caller);
        break;
      case 2:
        join(caller, script.value<std::int8_t>(), script.value<std::int8_t>());
        break;
      case 3:
        join(caller, script.value<std::int32_t>(), script.value<std::int32_t>());
        break;
      case 4:
        say(caller, script.bytes(script.byte()));
        break;
      case 5:
        frame_of(caller, script);
        break;
      case 6:
        caller = {};
        break;
      case 7:
        lie(caller, script);
        break;
    }
    root_.turn();
    hear(caller);
  }

  void connect(Caller& caller) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) return;
    caller = {FileDescriptor(ends[0])};
    root_.adopt(FileDescriptor(ends[1]), "caller");
  }

  void say(Caller& caller, std::span<const std::byte> bytes) {
    if (caller.socket.valid()) (void)!::send(caller.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  void greet(Caller& caller) {
    const Hello hello{kTag, {1, 2}};
    say(caller, bytes_of(hello));
    root_.turn();
    Proof proof;
    if (!caller.socket.valid() || ::recv(caller.socket.get(), &proof, sizeof proof, 0) != sizeof proof) return;
    if (proof.mac == prove(kSecret, hello.nonce, Role::root)) caller.nonce = proof.nonce;
  }

  void join(Caller& caller, std::int32_t rank, std::int32_t ranks) {
    Join join;
    join.mac = prove(kSecret, caller.nonce, Role::rank);
    join.rank = rank;
    join.ranks = ranks;
    join.joiner = static_cast<Joiner>(ranks & 3);
    say(caller, bytes_of(join));
    caller.introduced = true;
  }

  // With the kinds that exist and lengths that are believable, more often than chance would have it.
  void frame_of(Caller& caller, Script& script) {
    const auto kind = static_cast<Kind>(script.byte() % 13);
    const std::uint8_t length = script.byte();
    Header header{kind, 0, length};
    if (length == 255) header.length = script.value<std::uint32_t>();
    say(caller, bytes_of(header));
    say(caller, script.bytes(length));
  }

  void lie(Caller& caller, Script& script) {
    Join join;
    join.mac = script.value<std::uint64_t>();
    join.rank = script.byte();
    join.ranks = script.byte();
    say(caller, bytes_of(join));
  }

  // A greeting is answered by a proof; everything longer only those get who showed that they know the secret.
  void hear(Caller& caller) {
    if (!caller.socket.valid()) return;
    std::array<std::byte, 4096> heard;
    const ssize_t count = ::recv(caller.socket.get(), heard.data(), heard.size(), 0);
    if (count > 0)
      require(caller.introduced || count <= static_cast<ssize_t>(sizeof(Proof)), "a stranger is told something");
  }

  Root root_{RootSetup{{}, kSecret, std::chrono::milliseconds(1000)}};
  std::array<Caller, kConnections> callers_;
  int commands_ = 0;
};

// Ids are 128 bytes that came from anywhere.
void decode_id(Script& script) {
  UniqueId id;
  const auto bytes = script.bytes(id.bytes.size());
  std::copy(bytes.begin(), bytes.end(), id.bytes.begin());
  try {
    const IdContent content = decode(id);
    require(content.addresses.size() <= kMostAddresses, "too many addresses");
    require(encode(content).bytes == encode(decode(encode(content))).bytes, "an id changes");
  } catch (const Error& error) {
    require(error.code() == ErrorCode::invalid_argument, "another error");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Script script(data, size);
  if (script.byte() == 0xff)
    decode_id(script);
  else
    Play().perform(script);
  return 0;
}
