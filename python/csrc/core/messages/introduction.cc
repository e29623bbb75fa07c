#include "messages/introduction.h"

#include <errno.h>
#include <sys/socket.h>

#include <cstring>
#include <random>

namespace sccl_torch {
namespace {

constexpr std::uint64_t kTag = 0x31474d4c434353;  // "SCCLMG1", with the version of the frames

std::uint64_t rotated(std::uint64_t value, int bits) { return (value << bits) | (value >> (64 - bits)); }

}  // namespace

Secret random_secret() {
  std::random_device device;
  const auto word = [&] { return (std::uint64_t{device()} << 32) | device(); };
  Secret made;
  made.low = word();
  made.high = word();
  return made;
}

std::uint64_t siphash(const Secret& key, const void* message, std::size_t bytes) {
  std::uint64_t v0 = 0x736f6d6570736575ull ^ key.low;
  std::uint64_t v1 = 0x646f72616e646f6dull ^ key.high;
  std::uint64_t v2 = 0x6c7967656e657261ull ^ key.low;
  std::uint64_t v3 = 0x7465646279746573ull ^ key.high;
  const auto round = [&] {
    v0 += v1, v1 = rotated(v1, 13) ^ v0, v0 = rotated(v0, 32);
    v2 += v3, v3 = rotated(v3, 16) ^ v2;
    v0 += v3, v3 = rotated(v3, 21) ^ v0;
    v2 += v1, v1 = rotated(v1, 17) ^ v2, v2 = rotated(v2, 32);
  };
  const auto absorb = [&](std::uint64_t word) {
    v3 ^= word;
    round(), round();
    v0 ^= word;
  };
  const auto* from = static_cast<const unsigned char*>(message);
  std::size_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, from + at, 8);  // little endian, as all our platforms
    absorb(word);
  }
  std::uint64_t last = static_cast<std::uint64_t>(bytes) << 56;
  for (std::size_t i = 0; at + i < bytes; ++i) last |= std::uint64_t{from[at + i]} << (8 * i);
  absorb(last);
  v2 ^= 0xff;
  round(), round(), round(), round();
  return v0 ^ v1 ^ v2 ^ v3;
}

Secret derived(const Secret& from, const void* label, std::size_t bytes) {
  const std::uint64_t inner = siphash(from, label, bytes);
  const std::uint64_t words[2][2] = {{1, inner}, {2, inner}};
  return {siphash(from, words[0], sizeof words[0]), siphash(from, words[1], sizeof words[1])};
}

Introduction Introduction::of_dialler(const Secret& secret, int from, int to) {
  Introduction made;
  made.secret_ = secret;
  made.own_ = from;
  made.peer_ = to;
  made.stage_ = Stage::welcome;
  made.hello_.tag = kTag;
  made.hello_.from = from;
  made.hello_.to = to;
  made.hello_.nonce = random_secret();
  return made;
}

Introduction Introduction::of_listener(const Secret& secret, int own, int ranks) {
  Introduction made;
  made.secret_ = secret;
  made.own_ = own;
  made.ranks_ = ranks;
  return made;
}

std::uint64_t Introduction::prove(const Secret& nonce, Side side) const {
  const struct {
    Secret nonce;
    std::uint64_t side;
    Hello hello;
  } message{nonce, static_cast<std::uint64_t>(side), hello_};
  static_assert(sizeof message == sizeof(Secret) + 8 + sizeof(Hello), "no padding is hashed");
  return siphash(secret_, &message, sizeof message);
}

void Introduction::begin(int fd) {
  if (stage_ == Stage::welcome && !send(fd, &hello_, sizeof hello_)) state_ = State::failed;
}

Introduction::State Introduction::advance(int fd) {
  Stage before = stage_;
  do {
    before = stage_;
    step(fd);
  } while (state_ == State::going && stage_ != before);
  return state_;
}

void Introduction::step(int fd) {
  if (stage_ == Stage::hello) {
    if (!receive(fd, sizeof hello_)) return;
    std::memcpy(&hello_, buffer_, sizeof hello_);
    if (hello_.tag != kTag || hello_.to != own_ || hello_.from < 0 || hello_.from >= ranks_ || hello_.from == own_) {
      state_ = State::failed;
      return;
    }
    peer_ = hello_.from;
    nonce_ = random_secret();
    const Welcome welcome{prove(hello_.nonce, Side::listener), nonce_};
    if (!send(fd, &welcome, sizeof welcome)) state_ = State::failed;
    stage_ = Stage::proof;
  } else if (stage_ == Stage::welcome) {
    Welcome welcome;
    if (!receive(fd, sizeof welcome)) return;
    std::memcpy(&welcome, buffer_, sizeof welcome);
    nonce_ = welcome.nonce;
    const std::uint64_t proof = prove(nonce_, Side::dialler);
    const bool agreed = welcome.mac == prove(hello_.nonce, Side::listener) && send(fd, &proof, sizeof proof);
    state_ = agreed ? State::agreed : State::failed;
  } else {
    std::uint64_t proof = 0;
    if (!receive(fd, sizeof proof)) return;
    std::memcpy(&proof, buffer_, sizeof proof);
    state_ = proof == prove(nonce_, Side::dialler) ? State::agreed : State::failed;
  }
}

// Never more than is asked for: frames may follow.
bool Introduction::receive(int fd, std::size_t bytes) {
  while (got_ < bytes) {
    const ssize_t count = ::recv(fd, buffer_ + got_, bytes - got_, MSG_DONTWAIT);
    if (count > 0) {
      got_ += static_cast<std::size_t>(count);
    } else if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return false;
    } else if (count == 0 || errno != EINTR) {
      error_ = count == 0 ? 0 : errno;
      state_ = State::failed;
      return false;
    }
  }
  got_ = 0;
  return true;
}

// So few bytes fit into every socket's buffer: what is not taken at once is not taken at all.
bool Introduction::send(int fd, const void* data, std::size_t bytes) {
  ssize_t count = 0;
  do count = ::send(fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  while (count < 0 && errno == EINTR);
  return count == static_cast<ssize_t>(bytes);
}

}  // namespace sccl_torch
