"""Networks made wrong on purpose: the promise that should catch each of them must."""

import dataclasses
import inspect

import pytest
import torch
from tests.contracts import test_networks as contract
from torch import nn

from pellucid.models.catalogue import networks_for
from pellucid.models.sequences.configs import RecurrentConfig
from pellucid.models.sequences.recurrent import GRU

pytestmark = pytest.mark.usefixtures("one_thread")


class Sound(GRU):
    """Nothing wrong with it."""


class PeeksAhead(GRU):
    def forward(self, tokens):
        scores = super().forward(tokens)
        return scores + 0.1 * scores.mean(1, keepdim=True)


class LetsRowsMeet(GRU):
    def forward(self, tokens):
        scores = super().forward(tokens)
        return scores - scores.mean(0, keepdim=True)


class ForgetsTheState(GRU):
    def advance(self, tokens, state):
        return super().advance(tokens, self.begin(len(tokens)))


class ReadsOnlyTheLast(GRU):
    def read(self, tokens, state):
        return super().read(tokens[:, -1:], state)


class KeepsTheFirstRows(GRU):
    def keep(self, state, rows):
        return state[:, :1].expand(-1, len(rows), -1).contiguous()


class RemembersEverything(GRU):
    def begin(self, batch):
        return super().begin(batch)[..., :0], super().begin(batch)

    def forward(self, tokens):
        return self._roll(tokens, super().begin(len(tokens)))[0]

    def advance(self, tokens, state):
        past, hidden = state
        scores, hidden = super().read(tokens[:, None], hidden)
        return scores, (torch.cat([past, hidden], dim=-1), hidden)


class HasAnIdlePart(GRU):
    def __init__(self, config):
        super().__init__(config)
        self.idle = nn.Linear(3, 3)


class BeginsTooSure(GRU):
    def __init__(self, config):
        super().__init__(config)
        nn.init.normal_(self.head.weight, std=3.0)


class DrawsOutsideTheSeed(GRU):
    n_built = 0

    def __init__(self, config):
        super().__init__(config)
        DrawsOutsideTheSeed.n_built += 1
        with torch.no_grad():
            self.head.bias += 0.01 * DrawsOutsideTheSeed.n_built


class FoldsItself(GRU):
    def for_inference(self):
        return self.eval()


class HidesAWeight(GRU):
    def __init__(self, config):
        super().__init__(config)
        self.hidden_away = torch.randn(config.vocab_size)

    def forward(self, tokens):
        return super().forward(tokens) + self.hidden_away


class CannotLearn(GRU):
    def forward(self, tokens):
        return 0.01 * super().forward(tokens)


TINY = RecurrentConfig(vocab_size=5, width=16)


def card_of(network):
    return dataclasses.replace(
        networks_for("list")["gru"], network=f"{network.__module__}:{network.__name__}", tiny=TINY
    )


def tried(promise, network):
    """One promise, tried on one network as the contract tries it."""
    card = card_of(network)
    given = {
        "card": lambda: card,
        "model": lambda: contract.trained(card).for_inference(),
        "tokens": lambda: contract.draw(5, contract.BATCH, contract.TIME),
        "dtype": lambda: torch.float32,
        "tolerance": lambda: 1e-5,
        "start": lambda: "scratch",
    }
    promise(**{name: given[name]() for name in inspect.signature(promise).parameters})


CAUGHT = [
    (PeeksAhead, contract.test_no_peeking_ahead),
    (LetsRowsMeet, contract.test_items_of_a_batch_do_not_meet),
    (LetsRowsMeet, contract.test_it_is_told_whether_rows_meet_in_training),
    (ForgetsTheState, contract.test_one_token_at_a_time_gives_the_same_numbers),
    (ReadsOnlyTheLast, contract.test_reading_many_at_once_is_reading_one_by_one),
    (KeepsTheFirstRows, contract.test_rows_can_be_kept_left_out_and_doubled),
    (RemembersEverything, contract.test_the_state_does_not_grow_with_what_was_read),
    (HasAnIdlePart, contract.test_every_parameter_gets_a_gradient),
    (BeginsTooSure, contract.test_the_first_loss_is_that_of_guessing),
    (DrawsOutsideTheSeed, contract.test_the_same_seed_gives_the_same_bits),
    (FoldsItself, contract.test_made_ready_for_inference_the_original_stays),
    (HidesAWeight, contract.test_saved_is_loaded),
    (CannotLearn, contract.test_it_fits_eight_examples),
]


@pytest.mark.parametrize(("network", "promise"), CAUGHT, ids=lambda part: part.__name__)
def test_the_promise_catches_it(network, promise):
    with pytest.raises(AssertionError):
        tried(promise, network)


@pytest.mark.parametrize("promise", dict.fromkeys(promise for _, promise in CAUGHT), ids=lambda part: part.__name__)
def test_a_sound_network_keeps_them_all(promise):
    tried(promise, Sound)
