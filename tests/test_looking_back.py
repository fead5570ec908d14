"""First weights of a transformer whose heads ask the tokens just before: what they ask, and where they are used."""

import math
from dataclasses import replace

import pytest
import torch

from pellucid.data.options import DataOptions
from pellucid.layers.attention import attention_weights
from pellucid.models.catalogue import find_network
from pellucid.models.sequences.configs import TransformerConfig
from pellucid.models.sequences.transformer import Transformer
from pellucid.training.options import TrainOptions
from pellucid.training.plan import choose_plan
from pellucid.training.tasks import open_task


def build(looks_back=True, **changed):
    torch.manual_seed(0)
    model = Transformer(replace(TransformerConfig(27, 16, width=32, depth=2, n_heads=4), **changed))
    if looks_back:
        model.look_back()
    return model


def usual_weights(model):
    """What each head of the first block takes of each place, in the mean of many rows: (heads, time, time)."""
    tokens = torch.randint(27, (256, 16), generator=torch.Generator().manual_seed(1))
    stream = model.norm(model.embedding(tokens))
    q, k, _ = model.blocks[0].attention.project_heads(stream, model.positions.angles(0, 16))
    return attention_weights(q, k).mean(0)


@pytest.mark.parametrize(
    "changed",
    [{}, {"width": 64, "rotary_base": 100.0}, {"width": 128, "context": 64}, {"width": 16, "n_heads": 2}],
)
def test_each_head_asks_mostly_the_token_so_many_places_back(changed):
    for head, weights in enumerate(usual_weights(build(**changed))):
        assert (weights[8:].argmax(1) == torch.arange(8, 16) - head - 1).all(), head
        assert weights[8:].amax(1).min() > 0.3


def test_as_drawn_they_ask_no_place_more_than_others():
    assert usual_weights(build(looks_back=False))[:, 15].max() < 0.15


def test_embeddings_with_what_they_share_begin_half_as_large():
    drawn, embeddings = (build(back, width=64).embedding.weight.detach() for back in (False, True))
    signs = torch.tensor([1.0, -1.0]).repeat(32)
    torch.testing.assert_close(embeddings, (drawn + signs) / 2)


def test_all_tokens_are_as_likely_at_first():
    model = build()
    loss = torch.nn.functional.cross_entropy(model(torch.zeros(1, 8, dtype=torch.int64))[0], torch.arange(8))
    assert loss.item() == pytest.approx(math.log(27))


@pytest.mark.parametrize("changed", [{"positions": "learned"}, {"form": "post"}, {"form": "none"}, {"context": 1}])
def test_others_begin_as_drawn(changed):
    for ours, drawn in zip(build(**changed).parameters(), build(looks_back=False, **changed).parameters(), strict=True):
        assert torch.equal(ours, drawn)


@pytest.mark.parametrize(("start", "looks_back"), [("scratch", True), ("counts", False)])
def test_a_training_from_scratch_begins_so(start, looks_back):
    task, card = open_task(DataOptions("names")), find_network("transformer", "list")
    config, plan = choose_plan(card, task, TrainOptions(steps=2, start=start, size="tiny"))
    model = task.build_network(card, config, plan)
    network = model if start == "scratch" else model.network
    shared = network.embedding.weight.mean(0)
    assert bool((shared[0::2] > 0).all() and (shared[1::2] < 0).all()) == looks_back
