"""The backend "sccl" of torch.distributed, for tensors on the CPU.

    import sccl.torch
    torch.distributed.init_process_group("sccl")

`empty()` gives tensors in memory that the ranks of a host map into one another, where collectives need no copies.
"""
import importlib.util

import torch
import torch.distributed

from .. import library_path
from . import build

__all__ = ["MappedBuckets", "empty", "mapped_hook", "register"]


def _load():
    path = build.extension_path()
    specification = importlib.util.spec_from_file_location(build.MODULE, path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    module.set_library_path(library_path())
    return module


_module = _load()


def _seconds(timeout):
    return timeout.total_seconds()


def register(name="sccl", devices=("cpu",)):
    """Registers the backend with torch.distributed under `name`; profilers show its calls under that name."""
    def create(store, rank, size, timeout):
        return _module.create(store, rank, size, _seconds(timeout), name)

    backend = torch.distributed.Backend
    try:
        backend.register_backend(name, create, devices=list(devices))
    except TypeError:  # before 2.0
        backend.register_backend(name, create)


def empty(*sizes, dtype=None):
    """As torch.empty, in memory of ncclMemAlloc."""
    if len(sizes) == 1 and not isinstance(sizes[0], int):
        sizes = tuple(sizes[0])
    dtype = dtype or torch.get_default_dtype()
    width = torch.empty((), dtype=dtype).element_size()
    count = 1
    for size in sizes:
        count *= size
    return _module.empty_mapped(count * width).view(dtype).view(sizes)


class MappedBuckets:
    """State of mapped_hook: a buffer in mapped memory for each bucket of one DistributedDataParallel."""

    def __init__(self, group=None):
        self.group = group
        self.buffers = {}

    def buffer_of(self, bucket):
        gradients = bucket.buffer()
        kept = self.buffers.get(bucket.index())
        if kept is None or kept.numel() != gradients.numel() or kept.dtype != gradients.dtype:  # buckets are rebuilt once
            kept = self.buffers[bucket.index()] = empty(gradients.numel(), dtype=gradients.dtype)
        return kept


def mapped_hook(state, bucket):
    """A communication hook: `model.register_comm_hook(sccl.torch.MappedBuckets(), sccl.torch.mapped_hook)`.

    The division by the number of ranks, which is a pass over the gradients anyway, writes them into mapped memory."""
    buffer = state.buffer_of(bucket)
    torch.div(bucket.buffer(), torch.distributed.get_world_size(state.group), out=buffer)
    work = torch.distributed.all_reduce(buffer, group=state.group, async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


register()
