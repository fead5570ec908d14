"""Where a network of a list or a text is wrong on dev: what surprised it most, what it takes for what, how sure it is.

A list is read item by item, a text in the windows that its loss is measured in, so every number here is one that the
dev loss is a mean of. Of a long side so much is read that it takes seconds: items or windows, spread evenly over it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from pellucid.data.prepare.tokens import Corpus, take_part
from pellucid.errors import PellucidError
from pellucid.models.contracts import SequenceModel
from pellucid.models.counting.count_model import CountModel
from pellucid.models.sequences.on_counting import OnCounting
from pellucid.records import PredictedToken, SurprisingPart, TokenConfusion, TokenMistakes
from pellucid.runs import Run
from pellucid.training.checkpoints import load_network
from pellucid.training.run import ResumeOptions, reopen_data
from pellucid.training.tasks.batches import IGNORED, Batch, list_items
from pellucid.training.tasks.metrics import calibration
from pellucid.training.tasks.sequences import SequenceTask, tokens_of_a_pass
from pellucid.training.tasks.task import batch_to, device_of, evaluating

MOST_READ = 25_000  # tokens of dev
MOST_PARTS = 12  # items or stretches that are told
MOST_CONFUSIONS = 20
STRETCH = 32  # tokens of a text that are told together
LONGEST_PART = 64  # tokens of one item that are told
SHOWN_BEFORE = 24  # tokens before a stretch

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class PredictedSide(NamedTuple):
    """Every token of a side that was predicted, in its order; each array: (n,)."""

    places: Ints  # in the side's stream of tokens
    starts: Ints  # where its item begins, or its window
    targets: Ints
    likeliest: Ints
    nats: Floats
    confidences: Floats  # the probability of the likeliest


def measure_token_mistakes(run: Run) -> TokenMistakes:
    """What a finished run's network of a list or a text gets wrong on dev, and whether it is as right as it is sure."""
    if run.kind not in ("list", "text"):
        raise PellucidError(
            f"{run.name} is a run on {run.kind}, which has answers and no next tokens", fix="Draw mistakes of it"
        )
    report = run.report()
    if report.ladder.measure.side != "dev":
        raise PellucidError(
            f"of the run {run.name} nothing was held out, so what surprises it is not known",
            fix="Draw loss-curves, which every run has",
        )
    model, _ = load_network(run)
    assert isinstance(model, SequenceModel)
    task = reopen_data(run, ResumeOptions())
    assert isinstance(task, SequenceTask)
    whole = task.sides.dev
    side = take_part(whole, MOST_READ) if task.is_list else whole
    seen = predict_side(model, side, task.context, MOST_READ)
    is_right = seen.likeliest == seen.targets
    names = task.sides.vocabulary.tokens
    return TokenMistakes(
        run=run.name,
        network=report.network.name,
        source=report.data.name,
        kind=run.kind,
        n_tokens=len(seen.places),
        n_side=whole.n_predicted,
        n_read_at_once=len(np.unique(seen.starts)),
        nats=float(seen.nats.mean()),
        share_right=float(is_right.mean()),
        parts=tuple(_surprising_parts(seen, task, side)),
        confusions=_token_confusions(seen, names),
        calibration=calibration(seen.confidences, is_right),
    )


def predict_side(model: SequenceModel, side: Corpus, context: int, most: int) -> PredictedSide:
    """What the network says of every token of a list's side, or of as many windows of a text as hold `most` tokens."""
    counts = model.counts if isinstance(model, OnCounting) else None
    device, found = device_of(model), []
    made = _item_batches(side, model.vocab_size) if side.has_boundary else _window_batches(side, context, most, counts)
    with evaluating(model):
        for read, places in made:
            batch = batch_to(read, device)
            counted = batch.counted_in_place()
            scores = model(batch.tokens) if counted is None else model(batch.tokens, counted)
            logs = scores.double().log_softmax(-1).cpu()  # (rows, time, vocab)
            best, likeliest = logs.max(-1)
            is_real = (read.targets != IGNORED).numpy()
            nats = -logs.gather(-1, read.targets.clamp(min=0)[..., None])[..., 0]
            starts = np.broadcast_to(places[:, :1], places.shape)
            columns = (places, starts, read.targets.numpy(), likeliest.numpy(), nats.numpy(), best.exp().numpy())
            found.append([column[is_real] for column in columns])
    whole = [np.concatenate(column) for column in zip(*found, strict=True)]
    order = np.argsort(whole[0])
    return PredictedSide(*(column[order] for column in whole))


def _item_batches(side: Corpus, vocab_size: int) -> Iterator[tuple[Batch, Ints]]:
    """All items, those of like length together, and where each token that is read stands."""
    items = list_items(side)
    order = np.argsort(items.lengths, kind="stable")
    n_rows = max(1, tokens_of_a_pass(vocab_size) // int(items.lengths.max()))
    for first in range(0, len(order), n_rows):
        rows = order[first : first + n_rows]
        batch = items.collate(rows)
        yield batch, items.starts[rows, None].astype(np.int64) + np.arange(batch.tokens.shape[1])


def _window_batches(side: Corpus, context: int, most: int, counts: CountModel | None) -> Iterator[tuple[Batch, Ints]]:
    """Windows of a text, one at a time and spread evenly over it, each as it stands among all of them."""
    n_windows = -(-side.n_predicted // context)
    n_chosen = n_windows if side.n_predicted <= most else max(1, most // context)
    for window in np.unique(np.linspace(0, n_windows - 1, n_chosen).astype(int)).tolist():
        first, end = window * context, min((window + 1) * context, side.n_predicted)
        stretch = torch.from_numpy(side.tokens[first : end + 1].astype(np.int64))
        counted = None
        if counts is not None:
            began = max(0, first - counts.reach)
            logs = counts.after_each(side.tokens[began:end].astype(np.int64))[first - began :]
            counted = torch.from_numpy(logs)
        yield Batch(stretch[None, :-1], stretch[None, 1:], end - first, counted), np.arange(first, end)[None]


def _surprising_parts(seen: PredictedSide, task: SequenceTask, side: Corpus) -> Iterator[SurprisingPart]:
    """The items, or the stretches of a text, whose tokens cost most in the mean; the most surprising first."""
    n, n_read = len(seen.places), seen.places - seen.starts
    is_first = n_read == 0 if task.is_list else n_read % STRETCH == 0
    ends = [*np.flatnonzero(is_first).tolist(), n]
    spans = [(float(seen.nats[start:end].mean()), start, end) for start, end in pairwise(ends)]
    names, decode = task.sides.vocabulary.tokens, task.sides.vocabulary.decode
    for mean, start, end in sorted(spans, key=lambda span: (-span[0], span[1]))[:MOST_PARTS]:
        told = range(start, min(end, start + LONGEST_PART))
        at = int(seen.places[start]) + 1  # of its first token; the place before it is what was read last
        opens = max(int(seen.starts[start]), at - SHOWN_BEFORE)
        yield SurprisingPart(
            before="" if task.is_list else decode(side.tokens[opens:at].tolist()),
            n_before=0 if task.is_list else int(n_read[start]) + 1,
            nats=mean,
            n_tokens=end - start,
            tokens=tuple(
                PredictedToken(
                    token=names[seen.targets[i]],
                    nats=float(seen.nats[i]),
                    likeliest=names[seen.likeliest[i]],
                    confidence=float(seen.confidences[i]),
                )
                for i in told
            ),
        )


def _token_confusions(seen: PredictedSide, names: Sequence[str]) -> tuple[TokenConfusion, ...]:
    """Which likeliest token stood most often where another was true."""
    is_wrong = seen.likeliest != seen.targets
    pairs, counts = np.unique(np.stack([seen.targets[is_wrong], seen.likeliest[is_wrong]]), axis=1, return_counts=True)
    of = np.bincount(seen.targets, minlength=len(names))
    order = np.argsort(-counts, kind="stable")[:MOST_CONFUSIONS]
    return tuple(
        TokenConfusion(names[truth], names[answer], int(n), int(of[truth]))
        for (truth, answer), n in zip(pairs.T[order].tolist(), counts[order].tolist(), strict=True)
    )
