"""A ctypes client in the manner of vLLM's: two processes, CDLL("libnccl.so.2"), host buffers."""
import ctypes
import os
import sys


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def bind():
    library = ctypes.CDLL("libnccl.so.2")
    library.ncclGetErrorString.restype = ctypes.c_char_p
    library.ncclGetVersion.argtypes = [ctypes.POINTER(ctypes.c_int)]
    library.ncclGetUniqueId.argtypes = [ctypes.POINTER(UniqueId)]
    library.ncclCommInitRank.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, UniqueId, ctypes.c_int]
    library.ncclAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                                      ctypes.c_void_p, ctypes.c_void_p]
    library.ncclCommDestroy.argtypes = [ctypes.c_void_p]
    return library


def check(library, result):
    if result != 0:
        sys.exit("NCCL error: " + library.ncclGetErrorString(result).decode())


def run_rank(library, rank, ranks, unique_id):
    comm = ctypes.c_void_p()
    check(library, library.ncclCommInitRank(ctypes.byref(comm), ranks, unique_id, rank))
    data = (ctypes.c_float * 1000)(*[rank + 1.0] * 1000)
    check(library, library.ncclAllReduce(data, data, 1000, 7, 0, comm, None))
    if any(value != ranks * (ranks + 1) / 2 for value in data):
        sys.exit(f"rank {rank}: wrong sum")
    check(library, library.ncclCommDestroy(comm))


def main():
    library = bind()
    version = ctypes.c_int()
    check(library, library.ncclGetVersion(ctypes.byref(version)))
    digits = str(version.value)
    if len(digits) != 5 or not digits.startswith("2"):
        sys.exit(f"version {digits} has not the form clients parse")
    unique_id = UniqueId()
    check(library, library.ncclGetUniqueId(ctypes.byref(unique_id)))
    children = []
    for rank in range(2):
        child = os.fork()
        if child == 0:
            run_rank(library, rank, 2, unique_id)
            os._exit(0)
        children.append(child)
    if any(os.waitpid(child, 0)[1] != 0 for child in children):
        sys.exit("a rank failed")


main()
