// Speed of the data mover on one core: result bytes per second by type, operation and place of the data, as Markdown.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/types.h"
#include "kernels/host/reduce/reduce_copy.h"
#include "kernels/host/vectors/instruction_set.h"

namespace {

using namespace sccl;
using namespace sccl::kernels;

// Zeros would be one page shared by all, and cheap for no good reason.
std::vector<unsigned char> buffer(std::size_t bytes, DataType type) {
  std::vector<unsigned char> data(bytes);
  const std::size_t size = size_bytes(type);
  const std::uint64_t one = one_bits(type);
  for (std::size_t at = 0; at + size <= bytes; at += size) std::memcpy(&data[at], &one, size);
  return data;
}

// Median of several samples of `work`, each long enough to be timed.
double result_gbytes_per_s(const ReduceCopy& work, std::size_t bytes) {
  const std::size_t repeats = std::max<std::size_t>(1, (16u << 20) / bytes);
  std::vector<double> samples;
  for (int sample = 0; sample < 9; ++sample) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < repeats; ++i) reduce_copy(work);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    samples.push_back(static_cast<double>(bytes) * static_cast<double>(repeats) / seconds.count() / 1e9);
  }
  std::nth_element(samples.begin(), samples.begin() + samples.size() / 2, samples.end());
  return samples[samples.size() / 2];
}

struct Row {
  DataType type;
  ReduceKernel kernel;
  int operands;
  int destinations;
  bool scaled;
};

// In place: the first operand is the first destination, as in a += b.
double measure(const Row& row, std::size_t bytes) {
  std::vector<std::vector<unsigned char>> data;
  for (int i = 0; i < std::max(row.operands, 1) + row.destinations; ++i) data.push_back(buffer(bytes, row.type));
  std::vector<Operand> operands;
  std::vector<void*> destinations;
  for (int i = 0; i < row.operands; ++i) operands.push_back({data[i].data(), one_bits(row.type)});
  for (int i = 0; i < row.destinations; ++i) {
    destinations.push_back(i == 0 && row.operands > 1 ? data[0].data() : data[row.operands + i].data());
  }
  return result_gbytes_per_s({row.type, row.kernel, operands.data(), row.operands, row.scaled, 1, destinations.data(),
                              row.destinations, bytes / size_bytes(row.type)},
                             bytes);
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t cached_bytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 96 * 1024;
  const std::size_t memory_bytes = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 128u << 20;
  constexpr const char* kKernelNames[] = {"sum", "prod", "max", "min"};
  std::vector<Row> rows{
      {DataType::float32, ReduceKernel::sum, 1, 1, false},  {DataType::float32, ReduceKernel::sum, 1, 3, false},
      {DataType::float32, ReduceKernel::sum, 4, 1, false},  {DataType::float32, ReduceKernel::sum, 4, 3, false},
      {DataType::bfloat16, ReduceKernel::sum, 8, 1, false}, {DataType::float32, ReduceKernel::sum, 2, 1, true},
      {DataType::bfloat16, ReduceKernel::sum, 2, 1, true},  {DataType::float16, ReduceKernel::sum, 1, 1, true}};
  for (int type = 0; type < kDataTypeCount; ++type) {
    for (ReduceKernel kernel : {ReduceKernel::sum, ReduceKernel::prod, ReduceKernel::max}) {
      rows.push_back({static_cast<DataType>(type), kernel, 2, 1, false});
    }
  }
  fmt::print("{}: `{} {} {}`, GB of one result per second, medians of 9\n\n", processor(), argv[0], cached_bytes,
             memory_bytes);
  for (InstructionSet set : available_instruction_sets()) {
    use_instruction_set(set);
    fmt::print("| {} | operands | destinations | scaled | {} KiB | {} MiB |\n|---|---|---|---|---|---|\n", name(set),
               cached_bytes >> 10, memory_bytes >> 20);
    for (const Row& row : rows) {
      fmt::print("| {} {} | {} | {} | {} | {:.1f} | {:.1f} |\n", info(row.type).name,
                 kKernelNames[static_cast<int>(row.kernel)], row.operands, row.destinations, row.scaled ? "yes" : "no",
                 measure(row, cached_bytes), measure(row, memory_bytes));
      std::fflush(stdout);
    }
    fmt::print("\n");
  }
}
