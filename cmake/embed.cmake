# Writes OUTPUT, a C++ file that holds the texts of FILES (relative to ROOT) as kernels::embedded_sources().
# Usage: cmake -DROOT=... -DOUTPUT=... "-DFILES=a.h;b.h" -P embed.cmake
set(text "// Made by cmake/embed.cmake: the sources that are compiled where the program runs.\n")
string(APPEND text "#include \"kernels/instantiate/embedded.h\"\n\nnamespace sccl::kernels {\nnamespace {\n\nconstexpr EmbeddedSource kSources[] = {\n")
foreach(name ${FILES})
  file(READ ${ROOT}/${name} source)
  string(APPEND text "{\"${name}\",\nR\"SCCLSOURCE(${source})SCCLSOURCE\"},\n")
endforeach()
string(APPEND text "};\n\n}  // namespace\n\nstd::span<const EmbeddedSource> embedded_sources() { return kSources; }\n\n}  // namespace sccl::kernels\n")
file(WRITE ${OUTPUT} "${text}")
