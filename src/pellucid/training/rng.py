"""Chance as a pure function of (seed, step, purpose).

Nothing is drawn from a stream that remembers, so a resumed run needs no generator's state, and no callback can shift
what the loop draws by drawing something itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

CPU = torch.device("cpu")


def derive_seed(seed: int, step: int, purpose: str) -> int:
    """A whole number below 2⁶³ that is the same on every machine.

    >>> derive_seed(1, 2, "dropout") == derive_seed(12, 0, "dropout")
    False
    """
    digest = hashlib.blake2b(f"{seed} {step} {purpose}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def numpy_rng(seed: int, step: int, purpose: str) -> np.random.Generator:
    """NumPy's generator for this purpose, new each time."""
    return np.random.Generator(np.random.Philox(derive_seed(seed, step, purpose)))


def torch_rng(seed: int, step: int, purpose: str) -> torch.Generator:
    """torch's generator for this purpose, new each time."""
    return torch.Generator().manual_seed(derive_seed(seed, step, purpose))


@contextmanager
def seed_torch(seed: int, step: int, purpose: str, device: torch.device = CPU) -> Iterator[None]:
    """Inside, torch's own generator draws for this purpose, as dropout must; afterwards it is as it was.

    device: on another than the CPU, the generator of that one too.
    """
    before = torch.default_generator.get_state()
    torch.default_generator.manual_seed(derive_seed(seed, step, purpose))
    if device.type != "cpu":
        # By its number alone: the state of a device's generator is not read, for that would wait for the device.
        torch.get_device_module(device).manual_seed(derive_seed(seed, step, purpose))
    try:
        yield
    finally:
        torch.default_generator.set_state(before)
