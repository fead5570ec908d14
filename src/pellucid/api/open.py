"""`open_model`: a model that others made, from a Hugging Face folder on the disk, as a run that every verb takes.

Nothing is downloaded and no code of the folder is run. The run holds a copy of the weights, so that it stands for
itself. What it was trained on, and how well it does, is not known; what can be measured at once is.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path

from pellucid.data.hf_vocabulary import KIND, HFVocabulary
from pellucid.errors import PellucidError
from pellucid.models.catalogue import OPENED
from pellucid.models.sequences.hf_folder import read_hf_folder
from pellucid.records import DataFacts, NetworkFacts, OpenedModel, Plan
from pellucid.runs import BASE, RunWriter, new_run_path

LEAST_LEAK = 1e-4  # of scores of about 1, by which a later token may move an earlier one: rounding


def open_model(folder: str | Path, *, name: str = "") -> OpenedModel:
    """A run of the causal language model in a Hugging Face folder: config.json, model.safetensors, tokenizer.json.

    It can be sampled, scored, inspected, examined and drawn as any run, and trained on with train(from_run=...).
    name: of the run's folder under ./runs; by default after the folder.
    """
    if name and os.path.lexists(BASE / name):
        raise PellucidError(
            f"{BASE / name} exists already, and nothing is ever overwritten",
            fix="Choose another {name}",
            options={"name": None},
        )
    found = read_hf_folder(Path(folder))
    vocabulary = HFVocabulary(found.tokenizer, found.config.vocab_size, found.opening, found.closing)
    place = new_run_path(name, found.path.resolve().name)

    from pellucid.models.sequences.hf_causal_lm import computes_in_double, load_hf_folder, measure_contract
    from pellucid.training.checkpoints import save_best
    from pellucid.training.run import installed_versions, sha256_of

    model = load_hf_folder(found)
    contract = measure_contract(model)
    if not contract.leak <= LEAST_LEAK:
        raise PellucidError(
            f"{found.path.name} is not causal: other later tokens move earlier scores by {contract.leak:.2g}",
            fix="Give a model that goes on with a text",
        )
    if not computes_in_double(model):
        raise PellucidError(
            f"the code of {found.config.architecture} in transformers cannot compute in double precision, as "
            "sampling and scoring do",
            fix="Give a model of another architecture",
        )
    config = dataclasses.replace(found.config, is_cached=contract.is_cached)
    stored = json.dumps(vocabulary.to_json(), ensure_ascii=True)
    tensors = model.state_dict()
    n_bytes = sum(tensor.nbytes for tensor in tensors.values())
    layers = tuple((name, tuple(tensor.shape)) for name, tensor in tensors.items())
    record = {
        "seed": 1,
        "threads": 1,
        "versions": installed_versions(),
        "asked": {},
        "reading": {},
        "data": DataFacts(
            source="",
            description=f"{config.architecture} from the folder {found.path.resolve().name}; its data are not known",
            kind="text",
            tokens=KIND,
            fingerprint=found.fingerprint,
            vocab_size=config.vocab_size,
            symbols=tuple(vocabulary.tokens[:256]),
            items=dict.fromkeys(("train", "dev", "test"), 0),
            n_tokens=dict.fromkeys(("train", "dev", "test"), 0),
        ),
        "model": OPENED.name,
        "config": dataclasses.asdict(config),
        "network": NetworkFacts(
            OPENED.name, OPENED.summary, {"architecture": config.architecture}, model.n_parameters, layers
        ),
        "plan": Plan(0, 16, min(config.context or 256, 256), "", 0, 0, 0, 0, 0, 0, "", 0, 0, 0, 0, threads=1, seed=1),
        "command": ["pellucid", "open", found.path.name],
        "files": {"vocabulary.json": sha256_of(stored)},
    }
    with RunWriter.create(place, record, n_bytes + 65_536) as writer:
        try:
            writer.write("vocabulary.json", stored)
            save_best(writer.path, 0, tensors)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
    return OpenedModel(
        run=place.name,
        folder=str(place),
        architecture=config.architecture,
        parameters=model.n_parameters,
        vocab_size=config.vocab_size,
        context=config.context,
        n_bytes=n_bytes,
        leak=contract.leak,
        stepwise=contract.stepwise,
        is_cached=contract.is_cached,
    )
