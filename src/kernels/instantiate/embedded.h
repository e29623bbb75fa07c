// The device sources as texts inside the library; the build writes them (cmake/embed.cmake).
#pragma once

#include <span>

namespace sccl::kernels {

struct EmbeddedSource {
  const char* name;  // as it is included
  const char* text;
};

std::span<const EmbeddedSource> embedded_sources();

}  // namespace sccl::kernels
