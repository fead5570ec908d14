"""Training by the order of norms: transformers with layer norms behind their parts, and before them.

Six blocks of width 32 on names, by Adam, from the same drawn weights in both orders (see order_of_norms.py). The loss
is the mean of the last twenty steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search
from pellucid.claims.learning_rates import split_list_or_text
from pellucid.claims.letter_pairs import DATA
from pellucid.claims.order_of_norms import ORDERS, WIDTH, build_norm_stack
from pellucid.claims.sizes_and_latency import one_thread
from pellucid.lessons.lesson import LONGEST, name_batches, seed_knob
from pellucid.options import check_options, option

BATCH = 16  # names in a step
STEPS = 100
LARGE = 20.0  # nats: what a loss counts as that is larger, or no number


class NormOrderRun(NamedTuple):
    """The loss in the end, and the step at which it or a weight was no number any more, or 0."""

    loss: float
    broke_at: int


@cache
def train_norm_order(
    form: str, norm: str, data: str, depth: int, learning_rate: float, warmup: int, seed: int, scale: float = 1.0
) -> NormOrderRun:
    """A causal transformer; its rate climbs for `warmup` steps and then stays. scale: on the first weights."""
    import torch
    from torch import nn

    from pellucid.layers.masks import CAUSAL
    from pellucid.training.loop import mean_token_loss
    from pellucid.training.rng import seed_torch

    sides = split_list_or_text(data)
    size = len(sides.vocabulary)
    blocks = nn.ModuleList(build_norm_stack(form, depth, scale, seed, norm))
    with seed_torch(seed, 0, "ends"):
        embedding, places, head = nn.Embedding(size, WIDTH), nn.Embedding(LONGEST + 1, WIDTH), nn.Linear(WIDTH, size)
    last = nn.LayerNorm(WIDTH) if norm == "layer" else nn.Identity()
    parameters = [p for part in (blocks, embedding, places, head, last) for p in part.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=learning_rate)
    batches, losses = name_batches(sides, seed, BATCH), []
    with one_thread():
        for step in range(1, STEPS + 1):
            batch = batches.batch(step)
            stream = embedding(batch.tokens) + places(torch.arange(batch.tokens.shape[1]).clamp(max=LONGEST))
            for block in blocks:
                stream = block(stream, mask=CAUSAL)
            loss = mean_token_loss(head(last(stream)), batch.targets)
            if not math.isfinite(loss.item()):
                return NormOrderRun(LARGE, step)
            losses.append(min(loss.item(), LARGE))
            for group in optimizer.param_groups:
                group["lr"] = learning_rate * min(1.0, step / max(1, warmup))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
            optimizer.step()
    return NormOrderRun(sum(losses[-20:]) / 20, 0)


@dataclass(frozen=True)
class BrokenRunKnobs:
    data: str = option("names", DATA)
    form: str = option("post", "Norms before the parts, or behind them", choices=ORDERS)
    norm: str = option("layer", "The norms of the blocks", choices=("layer", "none"))
    depth: int = option(6, "Blocks.", minimum=1, maximum=100)
    learning_rate: float = option(0.01, "Learning rate of Adam, without a warm-up.", minimum=1e-6, maximum=1000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_broken_run(knobs: BrokenRunKnobs) -> Numbers:
    """Whether the loss of a training becomes no number within a hundred steps, and at which."""
    run = train_norm_order(knobs.form, knobs.norm, knobs.data, knobs.depth, knobs.learning_rate, 0, knobs.seed)
    return {"no number": float(run.broke_at > 0), "at step": float(run.broke_at), "loss": run.loss}


@dataclass(frozen=True)
class SwitchedOrderKnobs:
    data: str = option("names", DATA)
    depth: int = option(6, "Blocks.", minimum=1, maximum=100)
    learning_rate: float = option(0.01, "Learning rate of Adam.", minimum=1e-6, maximum=1000)
    warmup: int = option(40, "Steps in which the rate climbs, where it does.", minimum=1, maximum=STEPS)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_switched_order(knobs: SwitchedOrderKnobs) -> Numbers:
    """The losses of both orders without a warm-up."""
    found = {
        form: train_norm_order(form, "layer", knobs.data, knobs.depth, knobs.learning_rate, 0, knobs.seed).loss
        for form in ("post", "pre")
    }
    return {f"loss, {form}": loss for form, loss in found.items()}


def measure_warmup(knobs: SwitchedOrderKnobs) -> Numbers:
    """What a warm-up gains in both orders."""
    found: dict[str, float] = {}
    for form in ("pre", "post"):
        without, with_it = (
            train_norm_order(form, "layer", knobs.data, knobs.depth, knobs.learning_rate, warmup, knobs.seed).loss
            for warmup in (0, knobs.warmup)
        )
        found |= {f"gain, {form}": without - with_it, f"loss without, {form}": without, f"loss with, {form}": with_it}
    return found


FAMILY = ClaimFamily(
    name="norm-order-training",
    title="Training by the order of norms",
    claims=(
        Claim(
            id="post-ln-nans-at-six-layers",
            surprise="it takes a learning rate that nobody uses",
            says="a transformer of six blocks with norms behind the parts diverges to NaN",
            where="log Q14",
            kind="training",
            measure=measure_broken_run,
            decides="no number",
            margin=lambda seen: seen["no number"] - 0.5,
            rule="in most trainings the loss is no number within 100 steps of Adam, at rates from 0.0001 to 10",
            knobs=BrokenRunKnobs,
            control={"norm": "none", "learning_rate": 1.0},
            search=Search("learning_rate", 0.0001, 10.0, n_values=4, is_log=True),
            seeds=5,
            other_reading="at rates in use it does not; from 0.01 on it learns less, with a loss that is a number",
        ),
        Claim(
            id="pre-ln-fixes-training",
            says="putting the norms before the parts stabilises training",
            where="log Q14",
            kind="training",
            measure=measure_switched_order,
            decides="loss, post",
            margin=lambda seen: seen["loss, post"] - seen["loss, pre"] - 0.05,
            rule="without a warm-up, six blocks have a loss that is lower by 0.05 nats or more, at any learning rate",
            knobs=SwitchedOrderKnobs,
            control={"learning_rate": 0.001},
            search=Search("learning_rate", 0.001, 0.1, n_values=5, is_log=True),
            seeds=5,
            other_reading="at low rates both learn, and norms behind the parts are as good",
        ),
        Claim(
            id="pre-ln-removes-warmup",
            says="with norms before the parts a warm-up of the learning rate is not needed any more",
            where="log Q14",
            kind="training",
            measure=measure_warmup,
            decides="gain, post",
            margin=lambda seen: min(0.05 - seen["gain, pre"], seen["gain, post"] - 0.05),
            rule="a warm-up gains less than 0.05 nats with norms before the parts, and more with norms behind them",
            knobs=SwitchedOrderKnobs,
            control={"learning_rate": 0.001},
            seeds=5,
            other_reading="at 0.001 neither order gains by a warm-up, so that there is no need to remove",
        ),
        Claim(
            id="pre-norm-now-post-norm-then",
            says="today layer norms stand before attention and feed-forward, and in the first transformer behind them",
            where="notes §17.4",
            kind="history",
            reason="which order the networks of a year have is a count of publications, and none of them are here; "
            "torch's encoder layer has both, and by default still the older one",
        ),
    ),
)
