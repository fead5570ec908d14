"""Networks for pairs made wrong on purpose: the promise that should catch each of them must."""

import dataclasses
import inspect

import pytest
import torch
from tests.contracts import test_pair_networks as contract
from torch import nn

from pellucid.layers.masks import EVERYTHING
from pellucid.models.catalogue import networks_for
from pellucid.models.pairs.configs import EncoderDecoderConfig
from pellucid.models.pairs.encoder_decoder import EncoderDecoder

pytestmark = pytest.mark.usefixtures("one_thread")


class Sound(EncoderDecoder):
    """Nothing wrong with it."""


class PeeksAhead(EncoderDecoder):
    def forward(self, sources, tokens):
        scores = super().forward(sources, tokens)
        return scores + 0.1 * scores.mean(1, keepdim=True)


class IsNotTold(EncoderDecoder):
    """What was written before does not reach it."""

    def forward(self, sources, tokens):
        return super().forward(sources, torch.zeros_like(tokens))


class SeesWhatFillsUp(EncoderDecoder):
    """A source that is padded further becomes another one."""

    def encode(self, sources):
        return self.encoder(self.embedding(sources[:, : self.longest_source]), EVERYTHING), EVERYTHING


class CountsWhatFillsUp(EncoderDecoder):
    def forward(self, sources, tokens):
        return super().forward(sources, tokens) * (1 + 0.01 * sources.shape[1])


class ReadsTheFirstTokenAlone(EncoderDecoder):
    def encode(self, sources):
        return super().encode(sources[:, :1])


class StumblesOverAnEmptySource(EncoderDecoder):
    def encode(self, sources):
        memory, mask = super().encode(sources)
        return memory / (mask.lengths > 0).to(memory.dtype)[:, None, None] * 1.0, mask


class LetsRowsMeet(EncoderDecoder):
    def forward(self, sources, tokens):
        scores = super().forward(sources, tokens)
        return scores - 0.1 * scores.mean(0, keepdim=True)


class StaysAtTheFirstPosition(EncoderDecoder):
    def advance(self, tokens, state):
        scores, state = super().advance(tokens, state)
        return scores, state._replace(read=0)


class KeepsTheFirstRows(EncoderDecoder):
    def keep(self, state, rows):
        return super().keep(state, torch.zeros_like(rows))


class KeepsOneMemory(EncoderDecoder):
    """The rows' own pasts are kept right, and the sources that they answer are not."""

    def keep(self, state, rows):
        kept = super().keep(state, rows)
        blocks = [block._replace(keys=block.keys[:1].expand_as(block.keys)) for block in kept.blocks]
        return kept._replace(blocks=tuple(blocks))


class HasAnIdlePart(EncoderDecoder):
    def __init__(self, config):
        super().__init__(config)
        self.idle = nn.Linear(3, 3)


class BeginsTooSure(EncoderDecoder):
    def __init__(self, config):
        super().__init__(config)
        nn.init.normal_(self.head.weight, std=3.0)


class DrawsOutsideTheSeed(EncoderDecoder):
    n_built = 0

    def __init__(self, config):
        super().__init__(config)
        DrawsOutsideTheSeed.n_built += 1
        with torch.no_grad():
            self.head.bias += 0.01 * DrawsOutsideTheSeed.n_built


class FoldsItself(EncoderDecoder):
    def for_inference(self):
        return self.eval()


class HidesAWeight(EncoderDecoder):
    def __init__(self, config):
        super().__init__(config)
        self.hidden_away = torch.randn(config.vocab_size)

    def forward(self, sources, tokens):
        return super().forward(sources, tokens) + self.hidden_away


class CannotLearn(EncoderDecoder):
    def forward(self, sources, tokens):
        return 0.01 * super().forward(sources, tokens)


class LearnsWhatItDoesNotSay(EncoderDecoder):
    """The loss falls, and the answers are another network's."""

    def advance(self, tokens, state):
        scores, state = super().advance(tokens, state)
        return scores.roll(1, dims=-1), state


TINY = EncoderDecoderConfig(vocab_size=7, longest_source=5, longest_target=4, width=8, depth=1, n_heads=2)


def card_of(network):
    return dataclasses.replace(
        networks_for("pairs")["encoder-decoder"], network=f"{network.__module__}:{network.__name__}", tiny=TINY
    )


def tried(promise, network):
    """One promise, tried on one network as the contract tries it."""
    card = card_of(network)
    given = {
        "card": lambda: card,
        "model": lambda: contract.trained(card).for_inference(),
        "sources": lambda: contract.sources_for(card),
        "tokens": lambda: contract.tokens_for(card),
        "dtype": lambda: torch.float32,
        "tolerance": lambda: 1e-5,
    }
    promise(**{name: given[name]() for name in inspect.signature(promise).parameters})


CAUGHT = [
    (PeeksAhead, contract.test_no_peeking_ahead),
    (IsNotTold, contract.test_no_peeking_ahead),
    (SeesWhatFillsUp, contract.test_items_of_a_batch_do_not_meet),
    (CountsWhatFillsUp, contract.test_how_far_sources_are_padded_changes_nothing),
    (ReadsTheFirstTokenAlone, contract.test_the_whole_source_is_seen_from_everywhere),
    (StumblesOverAnEmptySource, contract.test_an_empty_source_is_one_too),
    (LetsRowsMeet, contract.test_items_of_a_batch_do_not_meet),
    (LetsRowsMeet, contract.test_rows_do_not_meet_in_training_either),
    (StaysAtTheFirstPosition, contract.test_one_token_at_a_time_gives_the_same_numbers),
    (KeepsTheFirstRows, contract.test_rows_can_be_kept_left_out_and_doubled),
    (KeepsOneMemory, contract.test_rows_can_be_kept_left_out_and_doubled),
    (HasAnIdlePart, contract.test_every_parameter_gets_a_gradient),
    (BeginsTooSure, contract.test_the_first_loss_is_that_of_guessing),
    (DrawsOutsideTheSeed, contract.test_the_same_seed_gives_the_same_bits),
    (FoldsItself, contract.test_made_ready_for_inference_the_original_stays),
    (HidesAWeight, contract.test_saved_is_loaded),
    (CannotLearn, contract.test_it_fits_eight_pairs),
    (LearnsWhatItDoesNotSay, contract.test_it_fits_eight_pairs),
]


@pytest.mark.parametrize(("network", "promise"), CAUGHT, ids=lambda part: part.__name__)
def test_the_promise_catches_it(network, promise):
    with pytest.raises(AssertionError):
        tried(promise, network)


@pytest.mark.parametrize("promise", dict.fromkeys(promise for _, promise in CAUGHT), ids=lambda part: part.__name__)
def test_a_sound_network_keeps_them_all(promise):
    tried(promise, Sound)
