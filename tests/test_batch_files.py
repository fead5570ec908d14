"""Batches from files, as inspect and doctor read them: every format alike, and nothing that could run code."""

import json
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import pellucid
from pellucid.errors import PellucidError
from pellucid.inspection import batch_file
from pellucid.inspection.batch_file import read_batch

X, Y = torch.arange(6.0).reshape(3, 2), torch.tensor([0, 1, 2])


def test_inputs_and_targets_are_the_same_from_every_format(tmp_path):
    np.savez(tmp_path / "batch.npz", x=X.numpy(), y=Y.numpy())
    save_file({"targets": Y, "inputs": X}, tmp_path / "batch.safetensors")
    torch.save((X, Y), tmp_path / "batch.pt")
    for name in ("batch.npz", "batch.safetensors", "batch.pt"):
        (inputs,), targets = read_batch(tmp_path / name, needs_names=True)
        assert torch.equal(inputs, X)
        assert targets is not None
        assert torch.equal(targets, Y)
    np.save(tmp_path / "batch.npy", X.numpy())
    (inputs,), targets = read_batch(tmp_path / "batch.npy")
    assert torch.equal(inputs, X)
    assert targets is None


def test_several_inputs_come_as_a_tuple_or_in_the_order_of_their_names(tmp_path):
    torch.save({"inputs": (X, X), "targets": Y}, tmp_path / "named.pt")
    save_file({"b": Y, "a": X}, tmp_path / "sorted.safetensors")
    assert len(read_batch(tmp_path / "named.pt").inputs) == 2
    assert [tuple(one.shape) for one in read_batch(tmp_path / "sorted.safetensors").inputs] == [(3, 2), (3,)]


def test_inspect_takes_the_path_of_a_batch(tmp_path):
    np.savez(tmp_path / "batch.npz", x=X.numpy(), y=Y.numpy())
    seen = pellucid.inspect("nn.Linear(2, 4)", tmp_path / "batch.npz")
    assert seen.rows[0].inputs[0].sizes == (3, 2)


def test_files_that_hold_no_plain_tensors_are_refused(tmp_path):
    torch.save(nn.Linear(2, 2), tmp_path / "module.pt")
    np.save(tmp_path / "pickled.npy", np.array([{"a": 1}]), allow_pickle=True)
    np.save(tmp_path / "words.npy", np.array(["a", "b"]))
    (tmp_path / "torn.npz").write_bytes(b"PK\x03\x04")
    (tmp_path / "torn.pt").write_bytes(b"PK")
    (tmp_path / "torn.safetensors").write_bytes(b"no header")
    (tmp_path / "endless.safetensors").write_bytes((1 << 60).to_bytes(8, "little") + json.dumps({}).encode())
    torn = ("torn.npz", "torn.pt", "torn.safetensors", "endless.safetensors")
    for name in ("module.pt", "pickled.npy", "words.npy", *torn):
        with pytest.raises(PellucidError, match="cannot be read as plain tensors"):
            read_batch(tmp_path / name)


def test_files_that_are_no_batch_are_refused_with_what_they_are(tmp_path, monkeypatch):
    np.savez(tmp_path / "other.npz", z=X.numpy())
    torch.save([X, X, X], tmp_path / "three.pt")
    (tmp_path / "words.txt").write_text("words")
    for name, words in (
        ("other.npz", "only z"),
        ("words.txt", "no file of tensors"),
        ("none.pt", "no file called"),
        ("three.pt", "holds no batch"),
    ):
        with pytest.raises(PellucidError, match=words):
            read_batch(tmp_path / name, needs_names=True)
    monkeypatch.setattr(batch_file, "LARGEST_FILE", 1 << 20)
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("x.npy", bytes(2 << 20))
    assert (tmp_path / "bomb.npz").stat().st_size < 1 << 13
    with pytest.raises(PellucidError, match="larger than"):
        read_batch(tmp_path / "bomb.npz")
