"""Networks for rows made wrong on purpose: the promise that should catch each of them must."""

import copy
import dataclasses
import inspect

import pytest
import torch
from tests.contracts import test_example_networks as contract
from torch import nn

from pellucid.models.catalogue import find_network
from pellucid.models.contracts import Reconstructor
from pellucid.models.examples.configs import ExampleShape, RowMLPConfig
from pellucid.models.examples.rows import RowMLP

pytestmark = pytest.mark.usefixtures("one_thread")


class Sound(RowMLP):
    """Nothing wrong with it."""


class LetsRowsMeet(RowMLP):
    def forward(self, numbers, codes):
        scores = super().forward(numbers, codes)
        return scores - scores.mean(0, keepdim=True)


class MeetsInSecret(RowMLP):
    """Batch norm of its own making, of which nobody is told."""

    def forward(self, numbers, codes):
        if self.training and len(numbers) > 1:
            numbers = (numbers - numbers.mean(0)) / (numbers.std(0) + 1e-5)
        return super().forward(numbers, codes)


class DropsTheLastColumn(RowMLP):
    def forward(self, numbers, codes):
        return super().forward(torch.cat([numbers[:, :-1], torch.zeros_like(numbers[:, -1:])], dim=1), codes)


class ReadsOneCategoryTwice(RowMLP):
    def forward(self, numbers, codes):
        return super().forward(numbers, codes[:, :1].expand_as(codes) % 3)


class CountsFromOne(RowMLP):
    """Code 0 becomes -1, which Python would take for the last."""

    def forward(self, numbers, codes):
        last = torch.tensor(self.config.categories) - 1
        return super().forward(numbers, torch.where(codes == 0, last, codes))


class WritesOnItsInput(RowMLP):
    def forward(self, numbers, codes):
        return super().forward(numbers.mul_(1.1), codes)


class SqueezesItsScores(RowMLP):
    def forward(self, numbers, codes):
        return super().forward(numbers, codes).squeeze(0)


class HasAnIdlePart(RowMLP):
    def __init__(self, config):
        super().__init__(config)
        self.idle = nn.Linear(3, 3)


class BeginsTooSure(RowMLP):
    def __init__(self, config):
        super().__init__(config)
        nn.init.normal_(self.head.weight, std=3.0)


class DrawsOutsideTheSeed(RowMLP):
    n_built = 0

    def __init__(self, config):
        super().__init__(config)
        DrawsOutsideTheSeed.n_built += 1
        with torch.no_grad():
            self.head.bias += 0.01 * DrawsOutsideTheSeed.n_built


class HidesAWeight(RowMLP):
    def __init__(self, config):
        super().__init__(config)
        self.hidden_away = torch.randn(config.outputs)

    def forward(self, numbers, codes):
        return super().forward(numbers, codes) + self.hidden_away


class FoldsItself(RowMLP):
    def for_inference(self):
        return self.eval()


class FoldsTheVarianceForTheDeviation(RowMLP):
    def for_inference(self):
        wrong = copy.deepcopy(self)
        for layer in wrong.layers:
            if hasattr(layer.norm, "running_variance"):
                layer.norm.running_variance.square_()
        return RowMLP.for_inference(wrong)


class SquashesItsScores(RowMLP):
    """Between -1 and 1 no score is sure of anything."""

    def forward(self, numbers, codes):
        return super().forward(numbers, codes).tanh()


class HasNoNarrowPlace(Reconstructor):
    """It hands on what it should squeeze."""

    def __init__(self, config):
        super().__init__()
        self.head = nn.Linear(config.outputs, config.outputs)

    def reconstruction_target(self, numbers, codes):
        return numbers

    def latent(self, numbers, codes):
        return numbers

    def forward(self, numbers, codes):
        return self.head(numbers)


@dataclasses.dataclass(frozen=True)
class Careless:
    """A configuration that takes anything."""

    numbers: tuple[int, ...] = (5,)
    categories: tuple[int, ...] = (3, 4)
    outputs: int = 3
    hidden: int = 16


TINY = RowMLPConfig(numbers=(5,), categories=(3, 4), outputs=3, hidden=16, embedding=2, norm="batch")
CARD = dataclasses.replace(find_network("mlp", "images"), tiny=TINY)


def address(network):
    """Where a class stands, as a row of the catalogue says it."""
    return f"{network.__module__}:{network.__name__}"


def tried(promise, network, tmp_path):
    """One promise, tried on one network as the contract tries it."""
    if network is Careless:
        card = dataclasses.replace(CARD, config=Careless, tiny=Careless())
    elif network is HasNoNarrowPlace:
        tiny = dataclasses.replace(TINY, categories=(), outputs=5)
        card = dataclasses.replace(CARD, network=address(network), tiny=tiny)
    elif network is MeetsInSecret:
        card = dataclasses.replace(CARD, network=address(network), tiny=dataclasses.replace(TINY, norm="none"))
    else:
        card = dataclasses.replace(CARD, network=address(network))
    given = {
        "card": lambda: card,
        "model": lambda: contract.trained(card).for_inference(),
        "examples": lambda: contract.draw(ExampleShape.of(card.tiny)),
        "dtype": lambda: torch.float32,
        "tolerance": lambda: 1e-5,
        "tmp_path": lambda: tmp_path,
    }
    promise(**{name: given[name]() for name in inspect.signature(promise).parameters})


CAUGHT = [
    (LetsRowsMeet, contract.test_rows_of_a_batch_do_not_meet),
    (MeetsInSecret, contract.test_it_is_told_whether_rows_meet_in_training),
    (DropsTheLastColumn, contract.test_every_number_is_read),
    (ReadsOneCategoryTwice, contract.test_every_category_is_read),
    (CountsFromOne, contract.test_what_is_unknown_has_an_answer),
    (WritesOnItsInput, contract.test_what_came_in_is_left_as_it_was),
    (SqueezesItsScores, contract.test_scores_have_their_shape),
    (HasAnIdlePart, contract.test_every_parameter_gets_a_gradient),
    (BeginsTooSure, contract.test_the_first_loss_is_that_of_guessing),
    (DrawsOutsideTheSeed, contract.test_the_same_seed_gives_the_same_bits),
    (HidesAWeight, contract.test_saved_is_loaded),
    (FoldsItself, contract.test_made_ready_for_inference_it_is_the_same_function),
    (FoldsTheVarianceForTheDeviation, contract.test_made_ready_for_inference_it_is_the_same_function),
    (SquashesItsScores, contract.test_it_fits_eight_examples),
    (HasNoNarrowPlace, contract.test_a_reconstruction_is_as_wide_as_what_is_wanted),
    (Careless, contract.test_an_impossible_setting_is_refused_in_one_line),
]


@pytest.mark.parametrize(("network", "promise"), CAUGHT, ids=lambda part: part.__name__)
def test_the_promise_catches_it(network, promise, tmp_path):
    # What pytest raises where nothing was refused is no AssertionError.
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        tried(promise, network, tmp_path)


@pytest.mark.parametrize("promise", dict.fromkeys(promise for _, promise in CAUGHT), ids=lambda part: part.__name__)
def test_a_sound_network_keeps_them_all(promise, tmp_path):
    tried(promise, Sound, tmp_path)
