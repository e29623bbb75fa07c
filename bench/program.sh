# For scripts of bench/, by `source`: makes a program that is linked with the library under NCCL's name.

# Prints the path of the library of a build.
library_of() {
  local library
  library=$(realpath "$1")/src/shim/libsccl.so
  [ -f "$library" ] || { echo "$library is missing: build the release preset first" >&2; return 2; }
  echo "$library"
}

# make_program LIBRARY SOURCE PROGRAM; the library lies beside the program as libnccl.so.2.
make_program() {
  local folder
  folder=$(dirname "$3")
  ln -s "$1" "$folder/libnccl.so.2"
  c++ -std=c++20 -O2 -I"$(dirname "${BASH_SOURCE[0]}")/../include" "$2" -o "$3" -L"$folder" -l:libnccl.so.2 -Wl,-rpath,"$folder"
}
