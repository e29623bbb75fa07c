// The `sccl` command: finds the verb and calls it.
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings/nearest_word.h"
#include "tools/launch/library.h"
#include "tools/verbs/verbs.h"

namespace sccl::tools {
namespace {

constexpr auto kVerbs = std::to_array<Verb>({
    {"perf", "measure a collective, in nccl-tests' columns", perf},
    {"run", "start the ranks of an NCCL program with the library preloaded", run},
    {"verify", "check a schedule file", verify},
    {"env", "the table of environment variables", env},
    {"doctor", "what on this machine helps or hinders", doctor},
    {"status", "who is in which call and waits for whom, of a running process", status},
    {"topo", "links between devices", topo},
    {"plan", "candidate schedules with predicted times", plan},
    {"synth", "synthesize schedules", synth},
    {"pack", "pack spanning trees into links", pack},
    {"simulate", "foresee the time of a schedule, link by link", simulate},
    {"trace", "make one trace of those that a job's processes wrote", trace},
    {"export", "convert a schedule: MSCCL XML, JSON, a picture", export_schedule},
    {"tune", "measure schedules on this host and train the learned dispatcher", tune},
    {"kernels", "compile the device's kernels ahead, and tell their registers", kernels},
    {"explain", "which schedule serves which size and why", explain},
});

void print_usage() {
  std::puts("usage: sccl VERB [OPTIONS]   (sccl VERB --help)\n");
  for (const Verb& verb : kVerbs)
    if (verb.function != nullptr)
      std::printf("  %-9s %s\n", std::string(verb.name).c_str(), std::string(verb.summary).c_str());
}

void tell_unknown(std::string_view wanted) {
  std::vector<std::string_view> names;
  for (const Verb& verb : kVerbs) names.push_back(verb.name);
  std::fprintf(stderr, "sccl: unknown verb '%s': the nearest one is %s\n", std::string(wanted).c_str(),
               std::string(nearest_word(wanted, names)).c_str());
}

int dispatch(int argc, char** argv) {
  const std::string_view wanted = argc > 1 ? argv[1] : "";
  if (wanted == "--help" || wanted == "-h" || wanted == "help") {
    print_usage();
    return kOk;
  }
  if (wanted == "--version" || wanted == "version") {
    std::printf("sccl %s (libsccl, NCCL's API %s)\n", SCCL_VERSION, library_version().c_str());
    return kOk;
  }
  for (const Verb& verb : kVerbs) {
    if (verb.name != wanted) continue;
    if (verb.function != nullptr) return verb.function(argc - 1, argv + 1);
    std::fprintf(stderr, "sccl %s: not in this version\n", argv[1]);
    return kBadUsage;
  }
  if (!wanted.empty()) tell_unknown(wanted);
  print_usage();
  return kBadUsage;
}

// An answer that nobody gets is none: a full disk, a closed descriptor. It includes CLI11's help: std::cout has no
// buffer of its own.
int after_printing(int code) {
  const bool flushed = std::fflush(stdout) == 0;
  const int error = errno;
  if (flushed && std::ferror(stdout) == 0) return code;
  // If an earlier write failed, errno may be that of another call since.
  std::fprintf(stderr, "sccl: standard output cannot be written%s%s\n", flushed ? "" : ": ",
               flushed ? "" : std::strerror(error));
  return code == kOk ? kBadUsage : code;
}

}  // namespace
}  // namespace sccl::tools

int main(int argc, char** argv) {
  try {
    return sccl::tools::after_printing(sccl::tools::dispatch(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sccl: %s\n", error.what());
    return sccl::tools::kBadUsage;
  }
}
