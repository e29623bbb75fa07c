// A fuzzer's target without libFuzzer, for every build and compiler: a fixed number of inputs, made from the seeds by
// mutations that follow from a fixed number, so that a failure comes back. Coverage is not looked at; finding what is
// new is the preset fuzz's task, keeping what was found right is this one's.
//
// Usage: brief INPUTS SEEDS_FOLDER [DICTIONARY]. A crash, an input that takes more than ten seconds, or more than 2 GiB
// of memory ends the process; what it was at lies in the file that is named.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::size_t kLongest = 16384;
constexpr unsigned kMostSeconds = 10;
constexpr rlim_t kMostMemory = 2ul << 30;

std::string current;  // input
char failed_path[] = "fuzz-failed-XXXXXX";

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Only what a signal handler may call.
void leave_input(int signal) {
  const int file = ::mkstemp(failed_path);
  ssize_t written = 0;
  if (file >= 0) written = ::write(file, current.data(), current.size());
  const char text[] = "this input fails: ";
  if (written >= 0) written = ::write(STDERR_FILENO, text, sizeof text - 1);
  if (written >= 0) written = ::write(STDERR_FILENO, failed_path, sizeof failed_path - 1);
  if (written >= 0) written = ::write(STDERR_FILENO, "\n", 1);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

// One token a line, in quotes, with \" and \\ and \xNN as libFuzzer has them.
std::vector<std::string> tokens_of(const std::filesystem::path& path) {
  std::vector<std::string> tokens;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.size() < 2 || line.front() != '"' || line.back() != '"') continue;
    std::string token;
    for (std::size_t i = 1; i + 1 < line.size(); ++i) {
      if (line[i] == '\\' && line[i + 1] == 'x' && i + 3 < line.size()) {
        token += static_cast<char>(std::stoi(line.substr(i + 2, 2), nullptr, 16));
        i += 3;
      } else {
        token += line[i] == '\\' ? line[++i] : line[i];
      }
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

class Mutator {
 public:
  Mutator(std::vector<std::string> seeds, std::vector<std::string> tokens)
      : seeds_(std::move(seeds)), tokens_(std::move(tokens)) {
    for (const char* number :
         {"0", "-1", "1", "1e308", "-0.0", "2147483648", "18446744073709551616", "0.1", "null", "[]", "{}"})
      tokens_.emplace_back(number);
  }

  std::string next() {
    std::string text = seeds_[below(seeds_.size())];
    for (std::size_t changes = 1 + below(6); changes > 0; --changes) change(text);
    if (text.size() > kLongest) text.resize(kLongest);
    return text;
  }

 private:
  std::size_t below(std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_); }
  std::size_t place(const std::string& text) { return below(text.size() + 1); }

  void change(std::string& text) {
    const std::size_t at = place(text);
    const std::size_t length = std::min(text.size() - at, below(64) + 1);
    switch (below(8)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        return;
      case 1:
        text.insert(at, 1, static_cast<char>(below(256)));
        return;
      case 2:
        text.erase(at, length);
        return;
      case 3:
        text.insert(place(text), text.substr(at, length));
        return;
      case 4:
        text.insert(at, tokens_[below(tokens_.size())]);
        return;
      case 5:
        replace_number(text, at);
        return;
      case 6:
        text.resize(at);
        return;
      default:
        splice(text, at);
    }
  }

  void replace_number(std::string& text, std::size_t from) {
    constexpr const char* kDigits = "0123456789";
    const std::size_t begin = text.find_first_of(kDigits, from);
    if (begin == std::string::npos) return;
    const std::size_t end = std::min(text.find_first_not_of(kDigits, begin), text.size());
    text.replace(begin, end - begin, tokens_[below(tokens_.size())]);
  }

  void splice(std::string& text, std::size_t at) {
    const std::string& other = seeds_[below(seeds_.size())];
    text = text.substr(0, at) + other.substr(place(other));
  }

  std::vector<std::string> seeds_, tokens_;
  std::mt19937_64 random_{20};
};

void limit_memory() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const rlimit limit{kMostMemory, kMostMemory};
  ::setrlimit(RLIMIT_AS, &limit);
#endif
}

void try_input(std::string input) {
  current = std::move(input);
  ::alarm(kMostSeconds);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(current.data()), current.size());
  ::alarm(0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s INPUTS SEEDS_FOLDER [DICTIONARY]\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argv[2])) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());  // the folder's own order differs from machine to machine
  std::vector<std::string> seeds;
  for (const auto& path : paths) seeds.push_back(content_of(path));
  if (seeds.empty()) {
    std::fprintf(stderr, "%s holds no seeds\n", argv[2]);
    return 2;
  }
  limit_memory();
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM}) ::signal(signal, leave_input);
  for (const std::string& seed : seeds) try_input(seed);
  Mutator mutator(seeds, argc > 3 ? tokens_of(argv[3]) : std::vector<std::string>{});
  const long inputs = std::strtol(argv[1], nullptr, 10);
  for (long i = 0; i < inputs; ++i) try_input(mutator.next());
  std::printf("%ld inputs from %zu seeds\n", inputs, seeds.size());
  return 0;
}
