// The device sources as texts inside the library. The build generates the texts (cmake/embed.cmake).
#pragma once

#include <span>

namespace sccl::kernels {

struct EmbeddedSource {
  const char* name;  // as in #include directives
  const char* text;
};

std::span<const EmbeddedSource> embedded_sources();

}  // namespace sccl::kernels
