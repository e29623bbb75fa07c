// The agreement on the vendor's library, without a library.
#include <catch2/catch.hpp>
#include <cstring>

#include "runtime/vendor/vendor_verdict.h"

using namespace sccl::runtime;
using Outcome = VendorVerdict::Outcome;

namespace {

VendorWord usable(int version, std::uint64_t functions) {
  VendorWord word;
  word.version = version;
  word.functions = functions;
  return word;
}

}  // namespace

TEST_CASE("ranks that all have the same library use what all of them have") {
  const std::vector<VendorWord> words{usable(22809, 0b111), usable(22809, 0b101)};
  const VendorVerdict told = verdict(VendorMode::automatic, words);
  CHECK(told.outcome == Outcome::use);
  CHECK(told.functions == 0b101);
  CHECK(told.why.empty());
}

TEST_CASE("a broken library is left out where it was found, and an error where it was asked for") {
  const std::vector<VendorWord> words{usable(22809, 1),
                                      VendorWord::without(VendorStanding::broken, "lacks ncclReduce")};
  CHECK(verdict(VendorMode::automatic, words).outcome == Outcome::leave_out);
  CHECK(verdict(VendorMode::asked, words).outcome == Outcome::refuse);
  CHECK(verdict(VendorMode::asked, words).why == "rank 1: lacks ncclReduce");
}

TEST_CASE("a rank that has no library is no error, even where another rank asked for one") {
  const std::vector<VendorWord> words{usable(22809, 1), VendorWord::without(VendorStanding::left_out, "never")};
  CHECK(verdict(VendorMode::asked, words).outcome == Outcome::leave_out);
}

TEST_CASE("the rank that failed is named, not those that followed it") {
  const std::vector<VendorWord> words{VendorWord::without(VendorStanding::follows, "followed"),
                                      VendorWord::without(VendorStanding::broken, "failed"), usable(22809, 1)};
  CHECK(verdict(VendorMode::automatic, words).why == "rank 1: failed");
  CHECK(verdict(VendorMode::asked, words).why == "rank 1: failed");
  const std::vector<VendorWord> only{VendorWord::without(VendorStanding::follows, "followed"), usable(22809, 1)};
  CHECK(verdict(VendorMode::asked, only).outcome == Outcome::leave_out);
}

TEST_CASE("other versions than rank 0's are named") {
  const std::vector<VendorWord> words{usable(22809, 1), usable(22809, 1), usable(23007, 1)};
  const VendorVerdict told = verdict(VendorMode::automatic, words);
  CHECK(told.outcome == Outcome::leave_out);
  CHECK(told.why == "rank 2: has version 2.30.7, and rank 0 has 2.28.9: give all ranks the same library");
}

TEST_CASE("a text that is too long for a word is cut and ends") {
  const VendorWord word = VendorWord::without(VendorStanding::broken, std::string(1000, 'x'));
  CHECK(std::string(word.text.data()) == std::string(word.text.size() - 1, 'x'));
}

TEST_CASE("a word travels unchanged, and a reader never runs past its text") {
  ControlAllGather::Payload payload{};
  payload.fill(std::byte{0xff});
  CHECK(std::string(vendor_word_of(payload).text.data()).size() == VendorWord{}.text.size() - 1);
  const VendorWord sent = VendorWord::without(VendorStanding::broken, "why");
  std::memcpy(payload.data(), &sent, sizeof sent);
  CHECK(std::string(vendor_word_of(payload).text.data()) == "why");
}
