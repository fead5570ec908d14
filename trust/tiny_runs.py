"""Runs with tiny networks that have opinions and learned nothing, on made-up data beside them: made in no time."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import torch

from pellucid.data import ListData, TextData, open_data
from pellucid.data.prepare.tokens import split_sequences
from pellucid.models.catalogue import NetworkCard, find_network
from pellucid.records import DataFacts, Evaluation
from pellucid.runs import RunWriter
from pellucid.training.checkpoints import save_best

TRANSFORMER = find_network("transformer", "list")

NAMES = ("emma", "ava", "mia", "olivia", "noah", "liam", "anna", "hannah", "nina", "lina", "mila", "noa")
STORY = "the cat saw the dog\nand the dog saw the cat. " * 40
CONTEXT = 12


def made(
    folder: Path,
    name: str,
    *,
    kind: str = "list",
    tokens: str = "characters",
    card: NetworkCard = TRANSFORMER,
    text: str = STORY,
    config: Any = None,
    scale: float = 0.4,
) -> Path:
    """A run with a tiny network that has opinions but learned nothing, on made-up data beside it.

    config, scale: of a network of another size, and how large its weights are.
    """
    items = [first + end for first in NAMES for end in ("", "n", "na", "li", "mo")]
    file = folder / ("own.txt" if kind == "list" else "story.txt")
    file.write_text("\n".join(items) + "\n" if kind == "list" else text)
    data = open_data(file, kind=kind)
    assert isinstance(data, ListData | TextData)
    sides = split_sequences(data, tokens)
    if config is None:
        config = dataclasses.replace(card.tiny, vocab_size=len(sides.vocabulary))
        if card is TRANSFORMER:
            config = dataclasses.replace(config, context=CONTEXT)
    model = card.build(config)
    chance = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=chance) * (scale if parameter.dim() > 1 else 0.1))
    facts = DataFacts(
        source=file.name,
        description=data.description,
        kind=kind,
        tokens=tokens,
        fingerprint=data.fingerprint,
        vocab_size=len(sides.vocabulary),
        symbols=tuple(sides.vocabulary.tokens[:256]),
        items={"train": len(sides.train_items), "dev": len(sides.dev_items), "test": len(sides.test_items)},
        n_tokens={side: getattr(sides, side).n_predicted for side in ("train", "dev", "test")},
    )
    record = {
        "model": card.name,
        "config": dataclasses.asdict(config),
        "data": facts,
        "reading": {"source": f"../../{file.name}", "kind": kind, "encoding": "utf-8", "newlines": "keep"},
    }
    with RunWriter.create(folder / "runs" / name, record, n_bytes=100_000) as run:
        run.write("vocabulary.json", json.dumps(sides.vocabulary.to_json()))
        run.append("evaluations", Evaluation(0, 3.3, 3.4))
        run.append("evaluations", Evaluation(40, 2.1, 2.2))
        save_best(run.path, 40, model.state_dict())
    return folder / "runs" / name
