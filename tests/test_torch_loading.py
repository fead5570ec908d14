"""Torch is loaded without what a training does not need, and that comes when it is needed after all."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pellucid.training.torch_loading import TRIED_VERSIONS

pytestmark = pytest.mark.skipif(not torch.__version__.startswith(TRIED_VERSIONS), reason="this torch is loaded whole")

LOADED = """
import sys
from pellucid.training.torch_loading import META_FUNCTIONS, DeferredModule, defer_meta_functions
def is_deferred():
    return isinstance(sys.modules[META_FUNCTIONS], DeferredModule)
defer_meta_functions()
import torch
print(is_deferred())
torch.Generator().manual_seed(1)
from pellucid.models.catalogue import compared_networks, find_network
for kind in ("list", "table", "images"):
    for name in compared_networks(kind):
        card = find_network(name, kind)
        with torch.device("meta"):
            card.build(card.tiny)
print(is_deferred())
import torch._dynamo
print(is_deferred(), torch.ops.aten.convolution_backward.default.py_kernels != {})
"""
ASKED = """
import sys
from pellucid.training.torch_loading import META_FUNCTIONS, DeferredModule, defer_meta_functions
defer_meta_functions()
import torch
print(torch._meta_registrations.device_hint(torch.empty(1)), isinstance(sys.modules[META_FUNCTIONS], DeferredModule))
"""
TRAINING = """
import atexit, gc, resource, sys
sys.argv[1:] = ["train", "names", "--model", "neural-ngram", "--steps", "3", "--threads", "1", "--name", "own"]
def tell():
    from pellucid.training.forked_work import can_fork
    has_counted_beside = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime > 0
    print(type(sys.modules["torch._meta_registrations"]).__name__, gc.get_freeze_count() > 100_000)
    print(has_counted_beside == can_fork())
atexit.register(tell)
from pellucid.cli import main
main()
"""

END = "\nimport os\nsys.stdout.flush()\nos._exit(0)"  # to take torch apart takes half as long as to load it


def _said(code: str, folder: Path) -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-c", code + END], capture_output=True, encoding="utf-8", cwd=folder, timeout=120, check=False
    )
    assert not ended.returncode, ended.stderr
    return ended.stdout.splitlines()


BESIDE_OTHERS = """
import gc, pellucid, sys
pellucid.train("names", model="neural-ngram", steps=1, threads=1)
print(gc.get_freeze_count(), type(sys.modules["torch._meta_registrations"]).__name__)
"""


def test_whoever_trains_from_python_has_the_whole_of_torch_and_nothing_is_frozen(tmp_path):
    assert _said(BESIDE_OTHERS, tmp_path)[-1] == "0 module"


def test_every_network_is_built_without_and_the_compiler_is_not(tmp_path):
    first, built, compiled = _said(LOADED, tmp_path)
    assert (first, built, compiled) == ("True", "True", "False True")


def test_what_is_asked_for_is_loaded(tmp_path):
    assert _said(ASKED, tmp_path) == ["cpu False"]


def test_a_run_has_the_same_bytes(tmp_path, pellucid):
    assert _said(TRAINING, tmp_path)[-2:] == ["DeferredModule True", "True"]
    words = ("train", "names", "--model", "neural-ngram", "--steps", "3", "--threads", "1", "--name", "whole")
    assert not pellucid(*words).returncode
    own, whole = (tmp_path / "runs" / name for name in ("own", "whole"))
    for name in ("model.safetensors", "metrics.jsonl", "evaluations.jsonl", "health.jsonl"):
        assert (own / name).read_bytes() == (whole / name).read_bytes(), name
