"""A GPU, imitated where there is none: tensors that say where they are, and refuse to meet.

Within `imitated_gpu()` a program sees one GPU, "cuda:0". Its tensors are ordinary ones, whose
memory is remembered as the GPU's. A `TorchFunctionMode` sees every call of PyTorch from Python. It

- answers `x.device`, and moves what `.to("cuda")`, `.cuda()` or `device="cuda"` would move;
- raises PyTorch's own `RuntimeError` if tensors of both places meet in an operation: a scalar of
  the CPU is welcome on the GPU, and so are indices, and nothing else is;
- raises PyTorch's own `TypeError` where a tensor of the GPU would become an array of NumPy;
- remembers what was computed on the GPU as the GPU's.

Numbers and speed are the CPU's. What other processes do, and C++ inside one call, is not seen.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode

CPU, GPU = torch.device("cpu"), torch.device("cuda:0")
NEVER_MEET = (
    "Expected all tensors to be on the same device, but found at least two devices, "
    "cuda:0 and cpu! (in {})"
)
NO_ARRAY = (
    "can't convert cuda:0 device type tensor to numpy. "
    "Use Tensor.cpu() to copy the tensor to host memory first."
)
WRONG_GENERATOR = "Expected a 'cuda' device type for generator but found 'cpu'"
MAY_MEET = ("copy_", "__set__", "_has_compatible_shallow_copy_type")
INDEXING = ("__getitem__", "__setitem__")
ARRAYS = ("numpy", "__array__", "__dlpack__")
MOVES = ("to", "cuda", "cpu", "type_as")


@contextmanager
def imitated_gpu() -> Iterator[None]:
    """Let everything within find a GPU."""
    answers = {
        "is_available": True,
        "device_count": 1,
        "current_device": 0,
        "get_device_name": "an imitated GPU",
        "is_bf16_supported": True,
        "get_rng_state": torch.get_rng_state(),  # what `fork_rng` keeps
        "set_rng_state": None,
        "synchronize": None,
    }
    fakes = {name: mock.Mock(return_value=answer) for name, answer in answers.items()}
    with mock.patch.multiple(torch.cuda, **fakes), _ImitatedGPU():
        yield


class _ImitatedGPU(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        # The GPU's, by address: which is not given to others as long as the reference is here.
        self.memory: dict[int, StorageWeakRef] = {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = dict(kwargs or {}), func.__name__
        if not self.memory and name not in MOVES and "device" not in kwargs:
            return func(*args, **kwargs)  # all are on the CPU, so that this is quick
        if name == "__get__":
            return self.attribute(func, args[0])
        if name in MOVES:
            return self.moved(name, *args, **kwargs)
        if name in MAY_MEET:
            return func(*args, **kwargs)
        tensors = list(_tensors_in((args, kwargs)))
        places = [self.place(x) for x in tensors]
        self.refuse(name, tensors, places, args, kwargs)
        wanted = kwargs.get("device")
        if wanted is not None and torch.device(wanted).type == "cuda":
            kwargs["device"] = CPU
        result = func(*args, **kwargs)
        made_of_numbers = name in ("tensor", "as_tensor") and not isinstance(args[0], Tensor)
        stays = GPU in places and not made_of_numbers
        if stays if wanted is None else torch.device(wanted).type == "cuda":
            self.take(result)
        return result

    def attribute(self, func, x: Tensor):
        """Return `x.device`, `x.shape`, `x.grad` …"""
        name = func.__self__.__name__
        if name in ("device", "is_cuda", "is_cpu"):
            place = self.place(x)
            return place if name == "device" else place.type == name[3:]
        value = func(x)
        if isinstance(value, Tensor) and self.place(x) == GPU:
            self.take(value)
        return value

    def refuse(self, name, tensors, places, args, kwargs):
        """Raise what PyTorch raises where the GPU cannot do this."""
        if GPU not in places:
            return
        if name in ARRAYS:
            raise TypeError(NO_ARRAY)
        here = [x for x, place in zip(tensors, places, strict=True) if place == CPU and x.dim()]
        if name in INDEXING and places[0] == GPU:  # indices may come from the CPU
            by_copying = next(_tensors_in(args[1]), None) is None
            values = [x for x in args[2:] if isinstance(x, Tensor) and not by_copying]
            here = [x for x in here if any(x is value for value in values)]
        if here:
            raise RuntimeError(NEVER_MEET.format(name))
        if isinstance(kwargs.get("generator"), torch.Generator):
            raise RuntimeError(WRONG_GENERATOR)

    def place(self, x: Tensor) -> torch.device:
        """Return where a tensor is."""
        if x.device != CPU:
            return x.device  # "meta", which has no memory
        return GPU if x.untyped_storage()._cdata in self.memory else CPU

    def take(self, results) -> None:
        """Remember the memory of these results as the GPU's."""
        for x in _tensors_in(results):
            if x.device == CPU:
                storage = x.untyped_storage()
                self.memory.setdefault(storage._cdata, StorageWeakRef(storage))
        if len(self.memory) > 10_000:
            self.memory = {i: ref for i, ref in self.memory.items() if not ref.expired()}

    def moved(self, name: str, x: Tensor, *args, **kwargs) -> Tensor:
        """Return what `.to(…)` and its like return: the tensor itself, or a copy elsewhere."""
        there, more = self.place(x), []
        if name in ("cpu", "cuda"):
            there, args = (CPU if name == "cpu" else GPU), args[1:]
        for each in (*args, kwargs.pop("device", None)):
            if isinstance(each, Tensor):
                there = self.place(each)
                more.append(each.dtype)
            elif isinstance(each, str | torch.device):
                there = GPU if torch.device(each).type == "cuda" else torch.device(each)
            elif isinstance(each, torch.dtype):
                more.append(each)
        if there.type == "meta":
            return x.to(there, *more, **kwargs)
        result = x.to(*more, **kwargs) if more or kwargs else x
        if there != self.place(x) and result.untyped_storage()._cdata == x.untyped_storage()._cdata:
            result = result.clone()
        if there == GPU:
            self.take(result)
        return result


def _tensors_in(values) -> Iterator[Tensor]:
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, tuple | list | dict):
        for each in values.values() if isinstance(values, dict) else values:
            yield from _tensors_in(each)
