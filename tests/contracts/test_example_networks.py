"""What every network for rows and images promises, tried on every card that the room carries."""

import copy
import dataclasses
import functools
import json
import math

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional

from pellucid.errors import LONGEST_LINE, PREFIX, PellucidError
from pellucid.models.catalogue import NetworkCard, find_network, networks_for
from pellucid.models.contracts import ExampleModel, Reconstructor
from pellucid.models.examples.configs import ExampleShape
from pellucid.models.settings import SIZES

CARDS = {**networks_for("table"), **networks_for("images")}
BATCH = 5
BASE = ("numbers", "categories", "outputs")
TABLES = (
    ExampleShape((2,), (), 1),
    ExampleShape((0,), (3,), 2),
    ExampleShape((7,), (4, 4, 3), 3),
    ExampleShape((64,), (), 10),
)
IMAGES = (ExampleShape((1, 8, 8), (), 10), ExampleShape((1, 32, 32), (), 10), ExampleShape((3, 28, 28), (), 2))

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(params=CARDS)
def card(request: pytest.FixtureRequest) -> NetworkCard:
    return CARDS[request.param]


def inputs_for(card: NetworkCard) -> list[ExampleShape]:
    """Data of every kind that it can read."""
    return [*(TABLES if "table" in card.kinds else ()), *(IMAGES if "images" in card.kinds else ())]


def draw(inputs: ExampleShape, n: int = BATCH, seed: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """n examples: numbers, codes, and a class for each."""
    dice = torch.Generator().manual_seed(seed)
    numbers = torch.randn(n, *inputs.numbers, generator=dice)
    columns = [torch.randint(0, codes, (n,), generator=dice) for codes in inputs.categories]
    codes = torch.stack(columns, dim=1) if columns else torch.zeros(n, 0, dtype=torch.long)
    return numbers, codes, torch.randint(0, inputs.outputs, (n,), generator=dice)


def built(card: NetworkCard, seed: int = 0) -> ExampleModel:
    torch.manual_seed(seed)
    return card.build(card.tiny)


def loss_of(model: ExampleModel, examples: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    numbers, codes, classes = examples
    scores = model(numbers, codes)
    if isinstance(model, Reconstructor):
        return functional.mse_loss(scores, model.reconstruction_target(numbers, codes))
    return functional.cross_entropy(scores, classes)


def trained(card: NetworkCard, dtype: torch.dtype = torch.float32, steps: int = 10) -> ExampleModel:
    """A few steps away from its first weights, so that no zero hides a mistake, and statistics are not 0 and 1."""
    return copy.deepcopy(_trained_once(card, dtype, steps))


@functools.cache
@torch.enable_grad()
def _trained_once(card: NetworkCard, dtype: torch.dtype, steps: int) -> ExampleModel:
    model = built(card).to(dtype)
    numbers, codes, classes = draw(ExampleShape.of(card.tiny), n=16, seed=9)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model, (numbers.to(dtype), codes, classes)).backward()
        optimizer.step()
    return model


@pytest.fixture
def model(card: NetworkCard) -> ExampleModel:
    return trained(card).for_inference()


@pytest.fixture
def examples(card: NetworkCard) -> tuple[Tensor, Tensor, Tensor]:
    return draw(ExampleShape.of(card.tiny))


def test_the_list_of_names_is_the_catalogues():
    assert set(networks_for("table")) - {"tabm"} < set(networks_for("images"))  # most also read the pixels of an image
    for name, card in CARDS.items():
        assert find_network(name, card.kinds[0]) is card
    with pytest.raises(PellucidError, match=r"there is no network called 'logistc'\. Perhaps you meant logistic"):
        find_network("logistc", "images")


def test_the_tiny_one_reads_what_its_card_says(card):
    assert ExampleShape.of(card.tiny).is_image or "table" in card.kinds


@torch.no_grad()
def test_scores_have_their_shape(card):
    model = built(card).eval()
    for n in (1, BATCH):
        numbers, codes, _ = draw(ExampleShape.of(card.tiny), n)
        scores = model(numbers, codes)
        assert scores.shape == (n, card.tiny.outputs)
        assert scores.isfinite().all()


@torch.no_grad()
def test_a_reconstruction_is_as_wide_as_what_is_wanted(model, examples):
    if isinstance(model, Reconstructor):
        numbers, codes, _ = examples
        assert model.reconstruction_target(numbers, codes).shape == model(numbers, codes).shape
        assert model.latent(numbers, codes).ndim == 2
        assert model.latent(numbers, codes).shape[1] < model.reconstruction_target(numbers, codes).shape[1]


@torch.no_grad()
def test_rows_of_a_batch_do_not_meet(model, examples):
    numbers, codes, _ = examples
    whole = model(numbers, codes)
    for row in range(BATCH):
        alone = model(numbers[row : row + 1], codes[row : row + 1])
        assert torch.allclose(alone[0], whole[row], atol=1e-5)


def test_it_is_told_whether_rows_meet_in_training(card, examples):
    model = trained(card)
    numbers, codes, _ = examples
    changed = torch.cat([numbers[:1], numbers[1:] + 1])
    assert torch.allclose(model(numbers, codes)[0], model(changed, codes)[0], atol=1e-5) != model.rows_meet


def test_what_came_in_is_left_as_it_was(card, examples):
    before = [part.clone() for part in examples]
    loss_of(built(card), examples).backward()
    assert all(torch.equal(part, was) for part, was in zip(examples, before, strict=True))


def test_every_number_is_read(card, examples):
    """A gradient comes back to each; a convolution whose stride leaves out an edge is no network for tables."""
    if "table" not in card.kinds:
        pytest.skip("reads images only")
    numbers, codes, _ = examples
    numbers.requires_grad_()
    trained(card).for_inference()(numbers, codes).square().sum().backward()
    assert (numbers.grad.abs().amax(0) > 0).all()


@torch.no_grad()
def test_every_category_is_read(card, model, examples):
    numbers, codes, _ = examples
    for column, n in enumerate(card.tiny.categories):
        changed = codes.clone()
        changed[:, column] = (changed[:, column] + 1) % n
        assert not torch.allclose(model(numbers, changed), model(numbers, codes), atol=1e-4)


@torch.no_grad()
def test_what_is_unknown_has_an_answer(card, model, examples):
    numbers, codes, _ = examples
    scores = model(numbers, torch.zeros_like(codes))
    assert scores.isfinite().all()
    if card.tiny.categories:  # code 0 is a code of its own, not the last one counted from behind
        last = torch.tensor(card.tiny.categories) - 1
        assert not torch.allclose(scores, model(numbers, last.expand_as(codes)), atol=1e-4)


def test_every_parameter_gets_a_gradient(card):
    model = built(card)
    examples = draw(ExampleShape.of(card.tiny), n=32)
    # Two steps first: from a head of zeros nothing comes back, and then nothing from projections of zeros below it.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss_of(model, examples).backward()
        optimizer.step()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 1e-9, name


def test_it_fits_eight_examples(card):
    model = built(card)
    examples = draw(ExampleShape.of(card.tiny), n=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(300):
        optimizer.zero_grad()
        loss = loss_of(model, examples)
        loss.backward()
        optimizer.step()
        if loss < 0.05:
            return
    raise AssertionError(f"the loss is still {loss.item():.3f}")


def test_the_same_seed_gives_the_same_bits(card, examples):
    def run(seed: int) -> dict[str, Tensor]:
        model = built(card, seed)
        loss_of(model, examples).backward()
        return {**model.state_dict(), **{f"{name}'": p.grad for name, p in model.named_parameters()}}

    first, again = run(4), run(4)
    assert first.keys() == again.keys()
    assert all(torch.equal(first[name], again[name]) for name in first)


@torch.no_grad()
def test_saved_is_loaded(card, examples, tmp_path):
    numbers, codes, _ = examples
    model = trained(card).eval()
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    other = built(card, seed=7).eval()
    assert not torch.equal(other(numbers, codes), model(numbers, codes))
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert torch.equal(other(numbers, codes), model(numbers, codes))


@torch.no_grad()
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)], ids=str)
def test_made_ready_for_inference_it_is_the_same_function(card, examples, dtype, tolerance):
    numbers, codes, _ = examples
    model = trained(card, dtype)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    ready = model.for_inference()
    again = ready.for_inference()
    assert model.training
    assert not ready.training
    whole = model.eval()(numbers.to(dtype), codes)
    for one in (ready, again):
        scores = one(numbers.to(dtype), codes)
        assert scores.dtype == dtype
        assert (scores - whole).abs().max() < tolerance * max(1, whole.abs().max().item())
    for parameter in ready.parameters():
        parameter.zero_()
    assert model.state_dict().keys() == before.keys()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_the_first_loss_is_that_of_guessing(card):
    """ln K for K classes; of a reconstruction, what answering 0 everywhere would cost."""
    for inputs in inputs_for(card):
        if inputs.outputs > 1 and inputs.n_numbers <= 1024:
            torch.manual_seed(0)
            model = card.build(card.of_size("small", inputs))
            examples = draw(inputs, n=64)
            guessing = math.log(inputs.outputs)
            if isinstance(model, Reconstructor):
                guessing = model.reconstruction_target(*examples[:2]).square().mean().item()
            with torch.no_grad():
                assert abs(loss_of(model, examples).item() - guessing) < 0.05 * guessing


@torch.no_grad()
def test_sizes_are_for_every_data(card):
    for inputs in inputs_for(card):
        numbers, codes, _ = draw(inputs, n=2)
        for size in ("tiny", "small"):
            config = card.of_size(size, inputs)
            model = card.build(config).eval()
            assert (config.numbers, config.categories) == (inputs.numbers, inputs.categories)
            assert isinstance(model, Reconstructor) or config.outputs == inputs.outputs
            assert model(numbers, codes).shape == (2, config.outputs)


def test_sizes_grow(card):
    inputs = inputs_for(card)[-2]
    sizes = [card.build(card.of_size(size, inputs)).n_parameters for size in SIZES]
    has_settings = len(dataclasses.fields(card.config)) > len(BASE)
    assert sizes == sorted(set(sizes) if has_settings else sizes)


def test_a_configuration_comes_back_from_its_stored_form(card):
    stored = json.loads(json.dumps(dataclasses.asdict(card.tiny)))
    assert card.config_from(stored) == card.tiny
    with pytest.raises(PellucidError, match=rf"'outpust' is no setting of {card.name}\. Perhaps you meant outputs"):
        card.config_from({**stored, "outpust": 3})
    stored.pop("outputs")
    with pytest.raises(PellucidError, match=f"outputs of {card.name} is missing"):
        card.config_from(stored)


def test_an_impossible_setting_is_refused_in_one_line(card):
    wrong = {"int": (-1, 1 << 40, True, "3"), "float": (-0.5, 1.5, math.nan), "str": ("nonsense",)}
    wrong["tuple[int, ...]"] = ((-1,), (0, 8, 8), (1.5,), 3)
    for field in dataclasses.fields(card.config):
        assert field.type in wrong or field.type == "bool", f"{field.name} of {card.name} is tried with nothing wrong"
        for value in wrong.get(str(field.type), ()):
            if field.name == "categories" and value == (0, 8, 8):
                value = (4, 0)
            with pytest.raises(PellucidError) as refusal:
                dataclasses.replace(card.tiny, **{field.name: value})
            assert "\n" not in str(refusal.value)
            assert len(PREFIX + str(refusal.value)) <= LONGEST_LINE


def test_what_reads_images_alone_refuses_a_table(card):
    if "table" not in card.kinds:
        for change in ({"numbers": (64,)}, {"categories": (3,)}):
            with pytest.raises(PellucidError):
                dataclasses.replace(card.tiny, **change)
