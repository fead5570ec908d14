"""A network divided over the processes (`--shard`).

Each holds a part of every weight, of its gradient and of what the optimizer remembers, and the weights of a block are
put together only while it computes.

This is torch's `fully_shard` (FSDP2). Its tensors are DTensors; what is saved and shown are whole ones, so that the
run's folder is the same as of one process.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
FEWEST_RETURNED = 1 << 20  # bytes
# Ways into a network beside `forward`: the weights have to be there for them, too.
WAYS_IN = ("member_scores", "latent", "reconstruction_target", "begin", "advance", "read")


def shard_network(model: nn.Module) -> None:
    """Divide the weights of a network over all processes: those of each block together, and the rest together."""
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    return_freed_memory()
    for part in model.modules():
        if isinstance(part, nn.ModuleList):
            for block in part:
                if any(True for _ in block.parameters()):
                    fully_shard(block)
    root = sharded_root(model)
    fully_shard(root)
    for name in WAYS_IN:
        if callable(getattr(root, name, None)):
            register_fsdp_forward_method(root, name)


def return_freed_memory() -> None:
    """Have what was a block's weights go back to the system at once, where the C library can be told so.

    Left alone it keeps them for later, and a divided network of 57 million weights took 1,817 MB in each of two
    processes in place of 600; undivided it took 1,091.
    """
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "mallopt"):
        for parameter in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD):
            library.mallopt(parameter, FEWEST_RETURNED)


def sharded_root(model: nn.Module) -> nn.Module:
    """The network of the catalogue, or the one inside of what learns on top of counting."""
    from pellucid.models.contracts import Network

    return model.core if isinstance(model, Network) else model


def synchronise_gradients(model: nn.Module, *, is_on: bool) -> None:
    """Whether the next backward pass exchanges gradients."""
    from torch.distributed.fsdp import FSDPModule

    root = sharded_root(model)
    assert isinstance(root, FSDPModule)
    root.set_requires_gradient_sync(is_on)


def is_divided(tensor: Tensor) -> bool:
    """Whether it is a DTensor. Its library takes a second to load, and where it is not loaded there is none."""
    library: Any = sys.modules.get("torch.distributed.tensor")
    return library is not None and isinstance(tensor, library.DTensor)


def works_in_step(model: nn.Module) -> bool:
    """Whether all processes have to compute together, for each holds a part of it."""
    return any(is_divided(one) for one in model.parameters())


def held_here(tensor: Tensor) -> Tensor:
    """The part of a tensor that this process holds: all of it, unless it is divided."""
    return tensor.to_local() if is_divided(tensor) else tensor  # type: ignore[attr-defined]  # then it has that


def whole_tensor(tensor: Tensor) -> Tensor:
    """The whole of a tensor that is divided; all processes have to ask for it together."""
    return tensor.full_tensor() if is_divided(tensor) else tensor  # type: ignore[attr-defined]  # then it has that


def whole_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same for several, on the CPU where they were divided."""
    return {name: whole_tensor(one).cpu() if is_divided(one) else one for name, one in tensors.items()}


def like_shards(tensor: Tensor, like: Tensor) -> Tensor:
    """A whole tensor divided, and placed, as another is."""
    if not is_divided(like):
        return tensor.to(like.device)
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(like, DTensor)
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements)


@torch.no_grad()
def load_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put whole weights into a network, divided or not."""
    wanted = model.state_dict()
    model.load_state_dict({name: like_shards(tensors[name], one) for name, one in wanted.items()})
