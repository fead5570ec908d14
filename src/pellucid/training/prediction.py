"""What a trained network says of new examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pellucid.data.prepare import TablePreparation
from pellucid.decoding.beam import beam_search
from pellucid.layers.losses import LOSSES
from pellucid.models.contracts import Network, PairModel, Reconstructor
from pellucid.models.pairs.padding import pad_rows
from pellucid.models.stepwise import PairReading, greedy_answers
from pellucid.records import Prediction, Predictions
from pellucid.runs import Run
from pellucid.training.new_examples import NewExamples
from pellucid.training.run_data import load_preparation, load_vocabulary
from pellucid.training.weights import load_network

AT_ONCE = 512  # examples of one pass
RANKED = 3  # classes told for each example


def predict_examples(run: Run, examples: NewExamples, beam: int = 0) -> Predictions:
    """The network's answers, in the order of the examples. beam: of pairs; 0 takes the likeliest token each time."""
    model = load_network(run)[0].for_inference()
    if run.kind == "pairs":
        assert isinstance(model, PairModel)
        found = _written(run, model, examples, beam)
    else:
        found = _scored(run, model, examples)
    data, notes = run.record["data"], (*examples.notes, *_right(found, examples, run.kind))
    return Predictions(run.name, run.model, str(data.get("target", "")), str(data.get("task", "")), found, notes)


def _scored(run: Run, model: Network, examples: NewExamples) -> tuple[Prediction, ...]:
    preparation = load_preparation(run)
    assert examples.numbers is not None
    assert examples.codes is not None
    numbers, codes = torch.from_numpy(examples.numbers), torch.from_numpy(examples.codes)
    with torch.inference_mode():
        firsts = range(0, len(numbers), AT_ONCE)
        scores = torch.cat([model(*(part[at : at + AT_ONCE] for part in (numbers, codes))) for at in firsts]).double()
        if isinstance(model, Reconstructor):
            errors = (scores - model.reconstruction_target(numbers, codes)).square().mean(1).tolist()
            return tuple(
                Prediction(name, f"error {error:.4f}", None) for name, error in zip(examples.names, errors, strict=True)
            )
    if not preparation.classes:
        assert isinstance(preparation, TablePreparation)
        values = preparation.in_units(scores.reshape(-1).numpy())
        return tuple(
            Prediction(name, f"{value:.6g}", None) for name, value in zip(examples.names, values.tolist(), strict=True)
        )
    chances = LOSSES[str(run.record["plan"].get("loss", "cross-entropy"))].probabilities
    if chances is None:  # as of hinge, whose scores only rank
        likeliest = scores.argmax(1).tolist()
        return tuple(
            Prediction(name, preparation.classes[place], None)
            for name, place in zip(examples.names, likeliest, strict=True)
        )
    return tuple(
        _ranked(name, row, preparation.classes)
        for name, row in zip(examples.names, chances(scores).numpy(), strict=True)
    )


def _ranked(name: str, shares: np.ndarray[Any, Any], classes: tuple[str, ...]) -> Prediction:
    order = np.argsort(-shares, kind="stable")[:RANKED]
    ranked = tuple((classes[place], float(shares[place])) for place in order)
    return Prediction(name, ranked[0][0], ranked[0][1], ranked)


def _written(run: Run, model: PairModel, examples: NewExamples, beam: int) -> tuple[Prediction, ...]:
    decode = load_vocabulary(run).decode
    if not beam:
        written = greedy_answers(model, pad_rows(examples.sources))
        return tuple(
            Prediction(name, decode(answer), None) for name, answer in zip(examples.names, written, strict=True)
        )
    found = []
    for name, source in zip(examples.names, examples.sources, strict=True):
        best = beam_search(PairReading(model, source), width=beam, longest=model.longest_target + 1, start=[0], stop=0)
        ways = tuple((decode(list(one.drawn.tokens)), float(np.exp(one.score))) for one in best[:RANKED])
        found.append(Prediction(name, ways[0][0], ways[0][1], ways))
    return tuple(found)


def _right(found: tuple[Prediction, ...], examples: NewExamples, kind: str) -> list[str]:
    """How many answers are right, where the truth is known and an answer is either right or wrong."""
    if not examples.truths or (kind != "pairs" and not found[0].ranked):
        return []
    n_right = sum(one.answer == truth for one, truth in zip(found, examples.truths, strict=True))
    return [f"the truth is known: {n_right:,} of {len(found):,} are right, {100 * n_right / len(found):.2f} %"]
