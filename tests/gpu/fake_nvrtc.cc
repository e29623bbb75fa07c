// A compiler for the fake driver: its images are the sources, which name the kernels.
#include <cstring>
#include <string>

#pragma GCC visibility push(default)
extern "C" {

int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 999;
  return 0;
}
const char* nvrtcGetErrorString(int) { return "an error of the fake"; }
int nvrtcCreateProgram(void** program, const char* source, const char*, int, const char* const*, const char* const*) {
  *program = new std::string(std::string("FAKE ") + source);
  return 0;
}
int nvrtcDestroyProgram(void** program) {
  delete static_cast<std::string*>(*program);
  return 0;
}
int nvrtcCompileProgram(void*, int, const char* const*) { return 0; }
int nvrtcGetProgramLogSize(void*, size_t* bytes) {
  *bytes = 1;
  return 0;
}
int nvrtcGetProgramLog(void*, char* log) {
  *log = '\0';
  return 0;
}
int nvrtcGetCUBINSize(void* program, size_t* bytes) {
  *bytes = static_cast<std::string*>(program)->size() + 1;
  return 0;
}
int nvrtcGetCUBIN(void* program, char* image) {
  std::memcpy(image, static_cast<std::string*>(program)->c_str(), static_cast<std::string*>(program)->size() + 1);
  return 0;
}

}  // extern "C"
#pragma GCC visibility pop
