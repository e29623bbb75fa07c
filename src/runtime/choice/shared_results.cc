#include "runtime/choice/shared_results.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <climits>

#include "base/bytes.h"
#include "base/deadline.h"
#include "base/siphash.h"

namespace sccl::runtime {
namespace {

using Content = SharedResults::Content;
using State = PlanBoard::State;

// A waiting rank checks in this interval whether the maker runs.
constexpr long kLookNs = 20000000;
// A result is kept while its maker needs this many others. A rank that is further behind makes it again.
constexpr std::uint64_t kKeptFinds = 32;
constexpr std::uint64_t kFormat = 0x31736c7573657201;

std::uint64_t word_of(std::uint64_t key, State state) { return key | static_cast<std::uint64_t>(state); }

// Waiters sleep on the half of an entry's word that holds the state.
const std::uint32_t* futex_of(const PlanBoard::Entry& entry) {
  static_assert(std::endian::native == std::endian::little && sizeof entry.word == sizeof(std::uint64_t));
  return reinterpret_cast<const std::uint32_t*>(&entry.word);
}

void tell(PlanBoard::Entry& entry, std::uint64_t word) {
  entry.word.store(word, std::memory_order_release);  // pairs with wait_for and find
  ::syscall(SYS_futex, futex_of(entry), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// What precedes the content in memory.
Content heading(const std::string& name) {
  Content bytes;
  const std::uint64_t length = name.size();
  append_values(bytes, &kFormat, 1);
  append_values(bytes, &length, 1);
  append_values(bytes, name.data(), name.size());
  return bytes;
}

bool write_all(const FileDescriptor& memory, const Content& bytes) {
  for (std::size_t written = 0; written < bytes.size();) {
    const ssize_t count = ::write(memory.get(), bytes.data() + written, bytes.size() - written);
    if (count <= 0) return false;
    written += static_cast<std::size_t>(count);
  }
  return true;
}

// A memfd with these bytes. Sealed, so that it cannot change or shrink while another rank reads it. Invalid if no
// descriptor or memory is free.
FileDescriptor memory_of(const std::string& name, const Content& content) {
  FileDescriptor made(::memfd_create("sccl-plan", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!made.valid() || !write_all(made, heading(name)) || !write_all(made, content)) return {};
  if (::fcntl(made.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0) return {};
  return made;
}

std::uint64_t inode_of(const FileDescriptor& memory) {
  struct stat status {};
  return ::fstat(memory.get(), &status) == 0 ? status.st_ino : 0;
}

// What memory_of() made, in this process.
class Mapping {
 public:
  explicit Mapping(const FileDescriptor& memory) {
    constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_WRITE;
    const int seals = ::fcntl(memory.get(), F_GET_SEALS);
    struct stat status {};
    if (seals < 0 || (seals & kSeals) != kSeals || ::fstat(memory.get(), &status) != 0 || status.st_size <= 0) return;
    bytes_ = static_cast<std::size_t>(status.st_size);
    begin_ = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, memory.get(), 0);
  }
  ~Mapping() {
    if (valid()) ::munmap(begin_, bytes_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  bool valid() const { return begin_ != MAP_FAILED; }
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(begin_), bytes_}; }

 private:
  std::size_t bytes_ = 0;
  void* begin_ = MAP_FAILED;
};

}  // namespace

void SharedResults::find(const std::string& name, const Make& make, const Use& use) {
  ++finds_;
  drop_old();
  const std::uint64_t key = siphash({0x706c616e, 0}, std::as_bytes(std::span(name))) & ~PlanBoard::kStateBits;
  while (PlanBoard::Entry* const entry = entry_of(key)) {
    std::uint64_t found = 0;
    // Pairs with drop_old and tell: what the entry's last maker stored in it comes before what this rank stores.
    if (entry->word.compare_exchange_strong(found, word_of(key, State::making), std::memory_order_acquire))
      return make_for_all(*entry, key, name, make, use);
    if ((found & ~PlanBoard::kStateBits) != key) continue;  // another rank has claimed it for another result
    const bool taken = take(*entry, key, name, use);
    entry->users.fetch_add(1, std::memory_order_relaxed);
    if (taken) return;
    break;
  }
  use(make(std::span(&host_.rank, 1)));
}

// The entry of that key, else a free one, else null.
PlanBoard::Entry* SharedResults::entry_of(std::uint64_t key) {
  PlanBoard::Entry* free = nullptr;
  for (std::size_t tried = 0; tried < PlanBoard::kEntries; ++tried) {
    PlanBoard::Entry& entry = host_.board.entries[(key / 4 + tried) % PlanBoard::kEntries];
    const std::uint64_t word = entry.word.load(std::memory_order_relaxed);  // orders nothing
    if ((word & ~PlanBoard::kStateBits) == key && word != 0) return &entry;
    if (word == 0 && free == nullptr) free = &entry;
  }
  return free;
}

// Frees the entries of results that all ranks have, or that have been there for long.
void SharedResults::drop_old() {
  std::erase_if(made_, [&](const Made& one) {
    // Relaxed: a rank that has opened the descriptor keeps what it holds.
    const bool all = one.entry->users.load(std::memory_order_relaxed) + 1 >= host_.ranks.size();
    if (!all && finds_ - one.at <= kKeptFinds) return false;
    one.entry->word.store(0, std::memory_order_release);  // pairs with find
    return true;
  });
}

void SharedResults::make_for_all(PlanBoard::Entry& entry, std::uint64_t key, const std::string& name, const Make& make,
                                 const Use& use) {
  entry.maker.store(host_.rank, std::memory_order_relaxed);
  entry.users.store(0, std::memory_order_relaxed);
  Content content;
  try {
    content = make(host_.ranks);
  } catch (...) {
    tell(entry, 0);
    throw;
  }
  FileDescriptor memory = memory_of(name, content);
  const std::uint64_t inode = memory.valid() ? inode_of(memory) : 0;
  if (inode != 0) {
    entry.descriptor.store(memory.get(), std::memory_order_relaxed);
    entry.inode.store(inode, std::memory_order_relaxed);
    made_.push_back({&entry, finds_, std::move(memory)});
    tell(entry, word_of(key, State::made));
  } else {
    tell(entry, 0);
  }
  use(content);
}

// True when the maker has made the result.
bool SharedResults::wait_for(const PlanBoard::Entry& entry, std::uint64_t key) const {
  const Deadline limit = Deadline::in(host_.making_limit);
  const std::uint64_t making = word_of(key, State::making);
  while (!limit.passed()) {
    const std::uint64_t word = entry.word.load(std::memory_order_acquire);  // pairs with tell()
    if (word != making) return word == word_of(key, State::made);
    const Rank maker = entry.maker.load(std::memory_order_relaxed);
    if (maker >= 0 && host_.does_nothing(maker)) return false;
    // Sleeps instead of polling, because the maker needs the cores.
    const timespec span{0, kLookNs};
    ::syscall(SYS_futex, futex_of(entry), FUTEX_WAIT, static_cast<std::uint32_t>(making), &span, nullptr, 0);
  }
  return false;
}

// False, and nothing is used, if the result is not made or this rank cannot read it. The entry may be freed meanwhile,
// even be another result's: what is opened then is something else, and refused.
bool SharedResults::take(PlanBoard::Entry& entry, std::uint64_t key, const std::string& name, const Use& use) const {
  if (!wait_for(entry, key)) return false;
  const FileDescriptor memory =
      host_.open(entry.maker.load(std::memory_order_relaxed), entry.descriptor.load(std::memory_order_relaxed));
  if (!memory.valid() || inode_of(memory) != entry.inode.load(std::memory_order_relaxed)) return false;
  const Mapping mapping(memory);
  if (!mapping.valid()) return false;
  const Content expected = heading(name);
  const std::span<const std::byte> bytes = mapping.bytes();
  if (bytes.size() < expected.size() || !std::equal(expected.begin(), expected.end(), bytes.begin())) return false;
  use(bytes.subspan(expected.size()));
  return true;
}

}  // namespace sccl::runtime
