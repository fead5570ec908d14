"""How torch is loaded by a process that does nothing but train.

A third of the time that torch takes to load goes into functions that tell the shapes of results for tensors without
numbers: the device "meta", which torch.compile stands on. A training has numbers in all of its tensors. So these are
left out until something asks for them, or the compiler is loaded.

What else these modules do while they load is nobody's promise: in torch 2.13 they make generators possible, by a call
that is made here. Versions of torch that were not tried are loaded whole.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import version
from types import ModuleType
from typing import Any

TRIED_VERSIONS = ("2.13.",)
META_FUNCTIONS = "torch._meta_registrations"
STANDING_ON_THEM = ("torch._dynamo", "torch._inductor", "torch.onnx")


class DeferredModule(ModuleType):
    """Is loaded when something of it is asked for. What every module has, such as __spec__, is there before."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        load_deferred(self)
        return getattr(self, name)


class _DeferringLoader(Loader):
    def __init__(self, real: Loader) -> None:
        self.real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return DeferredModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        import torch
        from torch._opaque_base import OpaqueBaseMeta

        # As torch._prims does, which is loaded with these functions; until then no generator can be made.
        torch._C._set_generator_metaclass(OpaqueBaseMeta)


class _DeferringFinder(MetaPathFinder):
    def __init__(self, *, is_tried: bool) -> None:
        """is_tried: whether this version of torch is known to train without."""
        self.is_tried = is_tried

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in STANDING_ON_THEM and isinstance(found := sys.modules.get(META_FUNCTIONS), DeferredModule):
            load_deferred(found)
        if fullname != META_FUNCTIONS or not self.is_tried:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _DeferringLoader(spec.loader)
        return spec


def load_deferred(module: DeferredModule) -> None:
    """Load it now."""
    spec = module.__spec__
    assert spec is not None
    assert isinstance(spec.loader, _DeferringLoader)
    module.__class__ = ModuleType  # type: ignore[assignment]  # nothing is asked for twice
    spec.loader = spec.loader.real
    spec.loader.exec_module(module)


def defer_meta_functions() -> None:
    """Let torch, where it is not loaded yet, be loaded without them: this process was started to train."""
    if "torch" not in sys.modules:
        sys.meta_path.insert(0, _DeferringFinder(is_tried=version("torch").startswith(TRIED_VERSIONS)))


def is_only_training() -> bool:
    """Whether this process was started to train, so that whatever is loaded stays to its end."""
    return any(isinstance(finder, _DeferringFinder) for finder in sys.meta_path)
