"""What a trained network says of new examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pellucid.data.prepare import TablePreparation
from pellucid.decoding.beam import beam_search
from pellucid.layers.losses import LOSSES
from pellucid.models.catalogue import find_network
from pellucid.models.contracts import Network, PairModel, Reconstructor
from pellucid.models.pairs.padding import padded
from pellucid.models.reading import PairReading, answers
from pellucid.records import Prediction, Predictions
from pellucid.training.asking import Answering, Questions
from pellucid.training.weights import load_best, require_matching_weights

AT_ONCE = 512  # examples of one pass
RANKED = 3  # classes told for each example


def predictions(run: Answering, asked: Questions, beam: int = 0) -> Predictions:
    """The network's answers, in the order of the questions. beam: of pairs; 0 takes the likeliest token each time."""
    model = awakened(run)
    data = run.record["data"]
    if run.kind == "pairs":
        assert isinstance(model, PairModel)
        found = _written(run, model, asked, beam)
    else:
        found = _scored(run, model, asked)
    notes = (*asked.notes, *_right(found, asked, run.kind))
    return Predictions(
        run.path.name, str(run.record["model"]), str(data.get("target", "")), str(data.get("task", "")), found, notes
    )


def awakened(run: Answering) -> Network:
    """The network that a run's files describe, with the weights that did best on dev."""
    card = find_network(str(run.record["model"]), run.kind)
    model: Network = card.build(card.config_from(run.record["config"]))
    tensors, _ = load_best(run.path)
    require_matching_weights(model, tensors)
    model.load_state_dict(tensors)
    return model.for_inference()


def _scored(run: Answering, model: Network, asked: Questions) -> tuple[Prediction, ...]:
    preparation = run.preparation
    assert preparation is not None, "tables and images have one"
    assert asked.numbers is not None
    assert asked.codes is not None
    numbers, codes = torch.from_numpy(asked.numbers), torch.from_numpy(asked.codes)
    with torch.inference_mode():
        firsts = range(0, len(numbers), AT_ONCE)
        scores = torch.cat([model(*(part[at : at + AT_ONCE] for part in (numbers, codes))) for at in firsts]).double()
        if isinstance(model, Reconstructor):
            errors = (scores - model.wanted(numbers, codes)).square().mean(1).tolist()
            return tuple(
                Prediction(name, f"error {error:.4f}", None) for name, error in zip(asked.names, errors, strict=True)
            )
    if not preparation.classes:
        assert isinstance(preparation, TablePreparation)
        values = preparation.in_units(scores.reshape(-1).numpy())
        return tuple(
            Prediction(name, f"{value:.6g}", None) for name, value in zip(asked.names, values.tolist(), strict=True)
        )
    chances = LOSSES[str(run.record["plan"].get("loss", "cross-entropy"))].probabilities
    if chances is None:  # as of hinge, whose scores only rank
        likeliest = scores.argmax(1).tolist()
        return tuple(
            Prediction(name, preparation.classes[place], None)
            for name, place in zip(asked.names, likeliest, strict=True)
        )
    return tuple(
        _ranked(name, row, preparation.classes) for name, row in zip(asked.names, chances(scores).numpy(), strict=True)
    )


def _ranked(name: str, shares: np.ndarray[Any, Any], classes: tuple[str, ...]) -> Prediction:
    order = np.argsort(-shares, kind="stable")[:RANKED]
    ranked = tuple((classes[place], float(shares[place])) for place in order)
    return Prediction(name, ranked[0][0], ranked[0][1], ranked)


def _written(run: Answering, model: PairModel, asked: Questions, beam: int) -> tuple[Prediction, ...]:
    assert run.vocabulary is not None, "pairs have one"
    decode = run.vocabulary.decode
    if not beam:
        written = answers(model, padded(asked.sources))
        return tuple(Prediction(name, decode(answer), None) for name, answer in zip(asked.names, written, strict=True))
    found = []
    for name, source in zip(asked.names, asked.sources, strict=True):
        best = beam_search(PairReading(model, source), width=beam, longest=model.longest_target + 1, start=[0], stop=0)
        ways = tuple((decode(list(one.drawn.tokens)), float(np.exp(one.score))) for one in best[:RANKED])
        found.append(Prediction(name, ways[0][0], ways[0][1], ways))
    return tuple(found)


def _right(found: tuple[Prediction, ...], asked: Questions, kind: str) -> list[str]:
    """How many answers are right, where the truth is known and an answer is either right or wrong."""
    if not asked.truths or (kind != "pairs" and not found[0].ranked):
        return []
    n_right = sum(one.answer == truth for one, truth in zip(found, asked.truths, strict=True))
    return [f"the truth is known: {n_right:,} of {len(found):,} are right, {100 * n_right / len(found):.2f} %"]
