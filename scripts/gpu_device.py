"""The CUDA driver and the library through ctypes, without any package: what gpu_check.py needs of both."""
import array
import ctypes as C
import os
import struct

SUCCESS = 0
TYPES = {"int8": (0, 1), "uint8": (1, 1), "int32": (2, 4), "uint32": (3, 4), "int64": (4, 8), "uint64": (5, 8),
         "float16": (6, 2), "float32": (7, 4), "float64": (8, 8), "bfloat16": (9, 2), "float8e4m3": (10, 1),
         "float8e5m2": (11, 1)}
OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}
# The bits of 0 .. 4, by which every result of up to 8 ranks can be told.
EIGHT_BITS = {"float8e4m3": [0, 0x38, 0x40, 0x44, 0x48], "float8e5m2": [0, 0x3c, 0x40, 0x42, 0x44]}
SMALL = {"float16", "bfloat16", *EIGHT_BITS}


class Failure(Exception):
    pass


def encode(kind, value):
    """One element's bytes."""
    if kind in EIGHT_BITS:
        return EIGHT_BITS[kind][value].to_bytes(TYPES[kind][1], "little")
    if kind == "float16":
        return struct.pack("<e", value)
    if kind == "bfloat16":
        return struct.pack("<f", value)[2:]
    if kind == "float32":
        return struct.pack("<f", value)
    if kind == "float64":
        return struct.pack("<d", value)
    return int(value).to_bytes(TYPES[kind][1], "little")


class Driver:
    def __init__(self, ordinal=0):
        self.lib = C.CDLL("libcuda.so.1")
        self.check(self.lib.cuInit(0), "cuInit")
        self.context = C.c_void_p()
        self.check(self.lib.cuDevicePrimaryCtxRetain(C.byref(self.context), ordinal), "retaining the primary context")
        self.make_current()

    def check(self, code, what):
        if code != SUCCESS:
            text = C.c_char_p()
            self.lib.cuGetErrorString(code, C.byref(text))
            raise Failure(f"{what}: {(text.value or b'?').decode()} ({code})")

    def make_current(self):
        self.check(self.lib.cuCtxSetCurrent(self.context), "making the device current")

    def devices(self):
        count = C.c_int()
        self.check(self.lib.cuDeviceGetCount(C.byref(count)), "cuDeviceGetCount")
        return count.value

    def name(self):
        text = C.create_string_buffer(100)
        self.check(self.lib.cuDeviceGetName(text, 100, 0), "cuDeviceGetName")
        return text.value.decode()

    def version(self):
        value = C.c_int()
        self.lib.cuDriverGetVersion(C.byref(value))
        return f"{value.value // 1000}.{value.value % 1000 // 10}"

    def attribute(self, number):
        value = C.c_int()
        self.check(self.lib.cuDeviceGetAttribute(C.byref(value), number, 0), "cuDeviceGetAttribute")
        return value.value

    def allocate(self, size):
        address = C.c_uint64()
        self.check(self.lib.cuMemAlloc_v2(C.byref(address), C.c_size_t(max(size, 16))), f"allocating {size} bytes")
        return address.value

    def free(self, address):
        self.check(self.lib.cuMemFree_v2(C.c_uint64(address)), "cuMemFree")

    def event(self):
        event = C.c_void_p()
        self.check(self.lib.cuEventCreate(C.byref(event), 0), "cuEventCreate")
        return event

    def record(self, event, stream):
        self.check(self.lib.cuEventRecord(event, stream), "cuEventRecord")

    def elapsed_ms(self, begin, end):
        value = C.c_float()
        self.check(self.lib.cuEventElapsedTime(C.byref(value), begin, end), "cuEventElapsedTime")
        return value.value

    def stream(self):
        stream = C.c_void_p()
        self.check(self.lib.cuStreamCreate(C.byref(stream), 1), "cuStreamCreate")
        return stream

    def synchronize(self, stream):
        self.check(self.lib.cuStreamSynchronize(stream), "cuStreamSynchronize")

    def write(self, address, data, stream):
        self.check(self.lib.cuMemcpyHtoDAsync_v2(C.c_uint64(address), bytes(data), C.c_size_t(len(data)), stream), "copy to device")
        self.synchronize(stream)

    def read(self, address, size, stream):
        data = C.create_string_buffer(max(size, 1))
        self.check(self.lib.cuMemcpyDtoHAsync_v2(data, C.c_uint64(address), C.c_size_t(size), stream), "copy from device")
        self.synchronize(stream)
        return data.raw[:size]

    def copy(self, to, source, size, stream):
        self.check(self.lib.cuMemcpyDtoDAsync_v2(C.c_uint64(to), C.c_uint64(source), C.c_size_t(size), stream), "copy on device")

    def fill(self, address, byte, size, stream):
        self.check(self.lib.cuMemsetD8Async(C.c_uint64(address), C.c_ubyte(byte), C.c_size_t(size), stream), "cuMemsetD8")

    def capture(self, stream, calls):
        """An executable graph of what `calls` enqueues."""
        graph, executable = C.c_void_p(), C.c_void_p()
        self.check(self.lib.cuStreamBeginCapture_v2(stream, 1), "cuStreamBeginCapture")
        try:
            calls()
        finally:
            self.check(self.lib.cuStreamEndCapture(stream, C.byref(graph)), "cuStreamEndCapture")
        self.check(self.lib.cuGraphInstantiateWithFlags(C.byref(executable), graph, C.c_uint64(0)), "cuGraphInstantiate")
        self.lib.cuGraphDestroy(graph)
        return executable

    def replay(self, executable, stream):
        self.check(self.lib.cuGraphLaunch(executable, stream), "cuGraphLaunch")


class UniqueId(C.Structure):
    _fields_ = [("internal", C.c_char * 128)]


class SignalWait(C.Structure):
    _fields_ = [("count", C.c_int), ("peer", C.c_int), ("signal", C.c_int), ("context", C.c_int)]


class Library:
    def __init__(self, path=None):
        self.lib = C.CDLL(path or os.environ["SCCL_LIB"])
        self.lib.ncclGetLastError.restype = C.c_char_p
        self.lib.ncclGetErrorString.restype = C.c_char_p

    def check(self, code, what):
        if code != SUCCESS:
            raise Failure(f"{what}: {self.lib.ncclGetErrorString(code).decode()}: {(self.lib.ncclGetLastError(None) or b'').decode()}")

    def create_id(self):
        made = UniqueId()
        self.check(self.lib.ncclGetUniqueId(C.byref(made)), "ncclGetUniqueId")
        return bytes(made)

    def join(self, unique_id, ranks, rank):
        comm = C.c_void_p()
        self.check(self.lib.ncclCommInitRank(C.byref(comm), ranks, UniqueId.from_buffer_copy(unique_id), rank), "ncclCommInitRank")
        return comm

    def call(self, name, *arguments):
        self.check(getattr(self.lib, name)(*arguments), name)

    def collective(self, kind, send, recv, count, type_number, op, root, comm, stream):
        s, r, n, t = C.c_void_p(send), C.c_void_p(recv), C.c_size_t(count), type_number
        arguments = {"AllReduce": (s, r, n, t, op, comm, stream), "Reduce": (s, r, n, t, op, root, comm, stream),
                     "ReduceScatter": (s, r, n, t, op, comm, stream), "AllGather": (s, r, n, t, comm, stream),
                     "Broadcast": (s, r, n, t, root, comm, stream), "AlltoAll": (s, r, n, t, comm, stream),
                     "Gather": (s, r, n, t, root, comm, stream), "Scatter": (s, r, n, t, root, comm, stream)}[kind]
        self.call("nccl" + kind, *arguments)

    def async_error(self, comm):
        state = C.c_int()
        self.lib.ncclCommGetAsyncError(comm, C.byref(state))
        return state.value


def repeat(element, count):
    return element * count


def floats(data):
    return array.array("f", data)
