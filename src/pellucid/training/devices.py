"""Devices and precisions: which there are, which is the best, and what runs on it in fewer bits."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from pellucid.errors import PellucidError

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
NAMES = {"cpu": "the CPU", "cuda": "CUDA", "mps": "Metal (MPS)"}


def available_devices() -> tuple[str, ...]:
    """The kinds of devices that are here, the best first."""
    found = ["cuda"] if torch.cuda.is_available() else []
    found += ["mps"] if torch.backends.mps.is_available() else []
    return (*found, "cpu")


def choose_device(asked: str | None) -> str:
    """The kind of device to train on: the one that is asked for, or the best there is.

    >>> choose_device("cpu")
    'cpu'
    """
    here = available_devices()
    if asked in (None, "auto"):
        return here[0]
    assert asked is not None
    if asked not in here:
        raise PellucidError(
            f"there is no {NAMES[asked]} device here, or this torch was built without it",
            fix=f"Choose {{device}}, or {' or '.join(here)}",
            options={"device": "auto"},
        )
    return asked


def place_for(device: str, local_rank: int = 0) -> torch.device:
    """The device itself; of several CUDA devices each process of a machine has its own."""
    return torch.device("cuda", local_rank) if device == "cuda" else torch.device(device)


def describe_device(device: str, local_rank: int = 0) -> str:
    """In words, as the plan names it.

    >>> describe_device("cpu")
    'the CPU'
    """
    if device == "cuda":
        return f"{torch.cuda.get_device_name(local_rank)} (CUDA)"
    return NAMES[device]


def autocast_for(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Inside, matrix products are made in fewer bits where that was chosen; weights and sums stay as they are."""
    return torch.autocast(device.type, dtype=TYPES[precision]) if precision in TYPES else nullcontext()
