// A runtime without a driver: a stream is an int that says what the runtime answers about it (0 ended, 600 not ready).
extern "C" {

__attribute__((visibility("default"))) int cudaStreamQuery(void* stream) {
  return __atomic_load_n(static_cast<int*>(stream), __ATOMIC_ACQUIRE);
}

__attribute__((visibility("default"))) int cudaStreamIsCapturing(void* stream, int* capturing) {
  *capturing = __atomic_load_n(static_cast<int*>(stream), __ATOMIC_ACQUIRE) == 900 ? 1 : 0;
  return 0;
}
}
