// How a test speaks to the driver that it brings along (fake_cuda.cc): what was called, what shall fail, what is left.
#pragma once

extern "C" {

// Every call since the last reset, as "cuMemAlloc_v2;cuCtxSetCurrent;...".
const char* fake_cuda_calls();
void fake_cuda_reset_calls();

// The next `count` calls of this function return `code`, after `skip` that do not.
void fake_cuda_fail(const char* function, int skip, int count, int code);

// What the program has not given back: allocations, handles, mappings, streams, events, modules.
int fake_cuda_live();
const char* fake_cuda_live_text();

// Calls that a stream's capture forbids, or in a context that its last owner has released, since the last reset.
int fake_cuda_violations();

void fake_cuda_set_version(int version);          // 13000
void fake_cuda_set_capability(int major);         // 9
void fake_cuda_set_vmm(int supported);            // 1
void fake_cuda_set_dmabuf(int supported);         // 1
void fake_cuda_set_process_service(int running);  // 1; -1: the driver cannot tell
// What a copy takes by the device's clock: 10 us and 10 ns a KiB unless told otherwise; a move by a kernel takes 5 us
// and 10 ns a KiB.
void fake_cuda_set_engine_costs(double begin_us, double kib_us);
// What a call's kernel takes by that clock, by its protocol; 10 us unless told otherwise.
void fake_cuda_set_call_costs(double simple_us, double ll_us);
void fake_cuda_set_stream_values(int supported);  // 1: streams can wait for values
void fake_cuda_set_delays(
    int random);  // 0; 1: operations on flags and stores of kernels come later, by up to a millisecond
// 1: the test lets streams of failed calls go, and ThreadSanitizer looks away from what streams move (let_go.h).
void fake_cuda_let_streams_go(int let_go);  // 0
// 1: kernels that wait do not look until this is 0 again.
void fake_cuda_hold_waits(int held);
int fake_cuda_held();  // threads of kernels that are held so
// Addresses that are nobody's allocation count as device memory, so that any test's buffers do.
void fake_cuda_set_any_memory(int allowed);

// Devices, up to eight, of which each has its own context: those of a DGX-1V by PCI address. 1 unless told otherwise.
void fake_cuda_set_devices(int count);
// What the driver says about access between devices, and what comes of it. A broken one is a mapping of another
// process's memory through which writes do not arrive.
enum FakePeerAccess { kFakePeerAccess, kFakeNoPeerAccess, kFakeBrokenPeerAccess };
void fake_cuda_set_peer_access(int kind);
// Pairs whose kernels may not use each other's memory; "": none.
void fake_cuda_refuse_peers(const char* pairs_of_digits);  // "01 23"

// Strictness. Unless told otherwise, what a driver may do is done: calls that allocate, free, register, map, load or
// fill wait for all that runs in the context.
void fake_cuda_set_strict(int strict);  // 1
// Of this thread's calls alone: 1: they wait for nothing. For programs of tests that allocate and free beside kernels
// which wait for them, as no program should.
void fake_cuda_spare_this_thread(int spared);
// Hardware queues of a device, for streams that are made from now on. CUDA_DEVICE_MAX_CONNECTIONS, else 8.
void fake_cuda_set_connections(int channels);
// Each has room for blocks as one of an H100 has. A kernel's blocks begin before those of the next one.
void fake_cuda_set_multiprocessors(int count);  // 8
int fake_cuda_blocks(int device);               // that have begun and not ended
// A wait that does not end aborts the program after 30 s with a line on stderr; here it fails after so long, and the
// line is kept. 0: as before.
void fake_cuda_tolerate_stuck(int after_ms);
const char* fake_cuda_stuck();  // the lines
// Whether the device's kernels may use the address.
int fake_cuda_may_use(int device, unsigned long long address);
// All that runs on the device vanishes, and every call of its context returns 700 from now on.
void fake_cuda_fault(int device);
// Time slices in which a process held a device against kernels of another one; of all processes that this one forked.
int fake_cuda_burnt_slices();
void fake_cuda_recover(int device);  // for the next test
// As when the program returns from main: all that runs vanishes, and every call returns 4 from now on.
void fake_cuda_end();

// Kernels executed since the program began, and those of them whose messages were lines (ll128).
long fake_cuda_kernels();
long fake_cuda_line_kernels();
// Their names since the last reset of the calls, as ";sccl_copy;sccl_move_float_sum".
const char* fake_cuda_launched();

// As the driver's header has them; what a test uses of it.
int cuInit(unsigned);
int cuCtxGetCurrent(void**);
int cuCtxSetCurrent(void*);
int cuDevicePrimaryCtxRetain(void**, int);
int cuDevicePrimaryCtxRelease_v2(int);
int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active);
int cuMemAlloc_v2(unsigned long long*, unsigned long);
int cuMemFree_v2(unsigned long long);
int cuStreamCreate(void**, unsigned);
int cuStreamDestroy_v2(void*);
int cuStreamSynchronize(void*);
int cuMemcpyDtoHAsync_v2(void*, unsigned long long, unsigned long, void*);
int cuMemcpyDtoDAsync_v2(unsigned long long, unsigned long long, unsigned long, void*);
int cuStreamIsCapturing(void*, int*);
int cuStreamGetId(void*, unsigned long long*);
int cuEventCreate(void**, unsigned);
int cuEventDestroy_v2(void*);
int cuEventRecord(void*, void* stream);
int cuEventQuery(void*);
int cuStreamWaitEvent(void* stream, void* event, unsigned);
int cuMemHostAlloc(void**, unsigned long, unsigned flags);
int cuMemFreeHost(void*);
int cuMemHostRegister_v2(void*, unsigned long, unsigned flags);
int cuMemHostUnregister(void*);
int cuMemCreate(unsigned long long* handle, unsigned long bytes, const void* properties, unsigned long long flags);
int cuMemRelease(unsigned long long handle);
int cuMemAddressReserve(unsigned long long*, unsigned long bytes, unsigned long, unsigned long long,
                        unsigned long long);
int cuMemAddressFree(unsigned long long, unsigned long bytes);
int cuMemMap(unsigned long long, unsigned long bytes, unsigned long, unsigned long long handle, unsigned long long);
int cuMemUnmap(unsigned long long, unsigned long bytes);
int cuMemSetAccess(unsigned long long, unsigned long bytes, const void* access, unsigned long count);
int cuCtxEnablePeerAccess(void* peer, unsigned);
int cuMemsetD8Async(unsigned long long, unsigned char, unsigned long, void* stream);
int cuStreamWaitValue32_v2(void*, unsigned long long address, unsigned value, unsigned flags);
int cuStreamBeginCapture_v2(void*, int mode);
int cuStreamEndCapture(void*, void** graph);
int cuThreadExchangeStreamCaptureMode(int*);
int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long);
int cuGraphLaunch(void* executable, void* stream);
int cuGraphExecDestroy(void*);
int cuGraphDestroy(void*);
}
