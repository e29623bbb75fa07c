// A compiler for the fake driver: its images are the sources, which name the kernels. As of NVRTC, version 13 knows no
// device before sm_75, and 12 knows none after sm_90.
#if !defined(FAKE_NVRTC_MAJOR)
#define FAKE_NVRTC_MAJOR 13
#endif

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#pragma GCC visibility push(default)
extern "C" {

int nvrtcVersion(int* major, int* minor) {
  *major = FAKE_NVRTC_MAJOR;
  *minor = 999;
  return 0;
}
#if FAKE_NVRTC_MAJOR == 13
static const int kKnown[] = {75, 80, 90, 100, 120};
#else
static const int kKnown[] = {60, 70, 75, 80, 90};
#endif
int nvrtcGetNumSupportedArchs(int* count) {
  *count = sizeof kKnown / sizeof kKnown[0];
  return 0;
}
int nvrtcGetSupportedArchs(int* known) {
  std::memcpy(known, kKnown, sizeof kKnown);
  return 0;
}
const char* nvrtcGetErrorString(int) { return "an error of the fake"; }
// The image tells what the headers promise of a multiprocessor's blocks: the second number of __launch_bounds__.
int nvrtcCreateProgram(void** program, const char* source, const char*, int count, const char* const* headers,
                       const char* const*) {
  std::string blocks = "0";
  for (int i = 0; i < count; ++i) {
    const char* const bounds = std::strstr(headers[i], "__launch_bounds__(");
    const char* const second = bounds == nullptr ? nullptr : std::strchr(bounds, ',');
    if (second != nullptr) blocks = std::to_string(std::atoi(second + 1));
  }
  *program = new std::string("FAKE " + std::string(source) + "\nBLOCKS_A_MULTIPROCESSOR " + blocks + "\n");
  return 0;
}
int nvrtcDestroyProgram(void** program) {
  delete static_cast<std::string*>(*program);
  return 0;
}
// A real one takes a second for a kernel.
int nvrtcCompileProgram(void*, int, const char* const*) {
  if (const char* const ms = std::getenv("FAKE_NVRTC_MS")) ::usleep(1000 * static_cast<useconds_t>(std::atoi(ms)));
  return 0;
}
int nvrtcGetProgramLogSize(void*, size_t* bytes) {
  *bytes = 1;
  return 0;
}
int nvrtcGetProgramLog(void*, char* log) {
  *log = '\0';
  return 0;
}
int nvrtcGetPTXSize(void* program, size_t* bytes) {
  *bytes = static_cast<std::string*>(program)->size() + 5;
  return 0;
}
int nvrtcGetPTX(void* program, char* image) {
  std::memcpy(image, ("PTX " + *static_cast<std::string*>(program)).c_str(),
              static_cast<std::string*>(program)->size() + 5);
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
