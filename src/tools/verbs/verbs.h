// The interface of a verb of the command; the table of verbs is in main.cc.
#pragma once

#include <string_view>

namespace sccl::tools {

// Exit codes of every verb.
inline constexpr int kOk = 0;
inline constexpr int kNo = 1;        // the answer is no: wrong results, a refused schedule, a failed check
inline constexpr int kBadUsage = 2;  // or unreadable input

// Arguments begin after the verb.
using VerbFunction = int (*)(int argc, char** argv);

int perf(int argc, char** argv);
int run(int argc, char** argv);
int verify(int argc, char** argv);
int env(int argc, char** argv);
int doctor(int argc, char** argv);
int status(int argc, char** argv);
int topo(int argc, char** argv);
int pack(int argc, char** argv);
int synth(int argc, char** argv);
int kernels(int argc, char** argv);
int explain(int argc, char** argv);
int tune(int argc, char** argv);
int plan(int argc, char** argv);
int simulate(int argc, char** argv);
int trace(int argc, char** argv);
int export_schedule(int argc, char** argv);

struct Verb {
  std::string_view name;
  std::string_view summary;
  VerbFunction function;  // null: not in this version
};

}  // namespace sccl::tools
