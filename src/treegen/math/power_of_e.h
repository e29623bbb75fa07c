// Prices of links that grow steeply with how busy the links are.
#pragma once

namespace sccl::treegen {

// About e^x, for x from -100 to 0. All hosts must find the same trees, and std::exp() differs in the last bit from
// machine to machine.
inline double power_of_e(double x) {
  double result = 1 + x / 1024;
  for (int i = 0; i < 10; ++i) result *= result;
  return result;
}

}  // namespace sccl::treegen
