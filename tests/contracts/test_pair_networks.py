"""What every network for pairs promises, tried on every card of one that the room carries."""

import copy
import dataclasses
import functools
import math

import pytest
import safetensors.torch
import torch
from torch import Tensor
from torch.nn import functional

from pellucid.errors import PellucidError
from pellucid.models.catalogue import NetworkCard, find_network, networks_for
from pellucid.models.contracts import PairModel
from pellucid.models.pairs.padding import pad_rows
from pellucid.models.settings import SIZES
from pellucid.models.stepwise import greedy_answers
from pellucid.options import options_of

CARDS = networks_for("pairs")
# One card has several kinds of cells and of attention, others several forms of blocks: each is tried once beside those
# of its tiny config.
OTHER_SETTINGS = {
    f"{name} {settings}": dataclasses.replace(CARDS[name], tiny=dataclasses.replace(CARDS[name].tiny, **settings))
    for name, settings in (
        ("rnn-encoder-decoder", {"cell": "rnn", "attention": "none"}),
        ("rnn-encoder-decoder", {"cell": "gru", "attention": "dot", "depth": 1}),
        ("encoder-decoder", {"form": "post"}),
        ("transformer", {"form": "post"}),
        ("transformer", {"form": "none"}),
    )
}
TRIED = {**CARDS, **OTHER_SETTINGS}
BATCH, SOURCE, TIME = 3, 5, 5
IS_NOT_TOLD = {"encoder"}  # writes all at once: what was written before does not matter to it

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(params=TRIED)
def card(request: pytest.FixtureRequest) -> NetworkCard:
    return TRIED[request.param]


def draw(card: NetworkCard, *shape: int, seed: int = 1) -> Tensor:
    """Tokens of any kind but the boundary."""
    return torch.randint(1, card.tiny.vocab_size, shape, generator=torch.Generator().manual_seed(seed))


def sources_for(card: NetworkCard, batch: int = BATCH, seed: int = 1) -> Tensor:
    """Sources of different lengths: the first is as long as can be, the next has two tokens less, and so on."""
    sources = draw(card, batch, SOURCE, seed=seed)
    lengths = torch.tensor([SOURCE - 2 * row % SOURCE for row in range(batch)])
    return sources.masked_fill(torch.arange(SOURCE) >= lengths[:, None], 0)


def tokens_for(card: NetworkCard, batch: int = BATCH, seed: int = 2) -> Tensor:
    return functional.pad(draw(card, batch, TIME - 1, seed=seed), (1, 0))


@pytest.fixture
def sources(card: NetworkCard) -> Tensor:
    return sources_for(card)


@pytest.fixture
def tokens(card: NetworkCard) -> Tensor:
    return tokens_for(card)


def built(card: NetworkCard, seed: int = 0) -> PairModel:
    torch.manual_seed(seed)
    return card.build(card.tiny)


def loss_of(model: PairModel, sources: Tensor, tokens: Tensor) -> Tensor:
    """Of all tokens of the target and of its end."""
    wanted = functional.pad(tokens[:, 1:], (0, 1))
    return functional.cross_entropy(model(sources, tokens).flatten(0, 1), wanted.flatten())


def trained(card: NetworkCard, dtype: torch.dtype = torch.float32) -> PairModel:
    """A few steps away from its first weights, so that no zero hides a mistake."""
    return copy.deepcopy(_trained_once(card, dtype))


@functools.cache
@torch.enable_grad()
def _trained_once(card: NetworkCard, dtype: torch.dtype) -> PairModel:
    model = built(card).to(dtype)
    sources, tokens = sources_for(card, 16, seed=8), tokens_for(card, 16, seed=9)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(10):
        optimizer.zero_grad()
        loss_of(model, sources, tokens).backward()
        optimizer.step()
    return model


@pytest.fixture
def model(card: NetworkCard) -> PairModel:
    return trained(card).for_inference()


def test_the_list_of_names_is_the_catalogues():
    for name in CARDS:
        assert find_network(name, "pairs") is CARDS[name]
    with pytest.raises(PellucidError, match=r"there is no network called 'encodr'\. Perhaps you meant encoder"):
        find_network("encodr", "pairs")


@torch.no_grad()
def test_scores_have_their_shape(card):
    model = built(card).eval()
    for batch, time in ((1, 1), (BATCH, TIME)):
        scores = model(sources_for(card, batch), tokens_for(card, batch)[:, :time])
        assert scores.shape == (batch, time, model.vocab_size)
        assert scores.isfinite().all()


@torch.no_grad()
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)], ids=str)
def test_one_token_at_a_time_gives_the_same_numbers(card, sources, tokens, dtype, tolerance):
    model = trained(card, dtype).eval()
    whole = model(sources, tokens)
    for ready in (model, model.for_inference()):
        assert (ready(sources, tokens) - whole).abs().max() < tolerance
        state = ready.begin(sources)
        for time in range(TIME):
            scores, state = ready.advance(tokens[:, time], state)
            assert scores.dtype == dtype
            assert (scores - whole[:, time]).abs().max() < tolerance


@torch.no_grad()
def test_rows_can_be_kept_left_out_and_doubled(model, sources, tokens):
    rows = torch.tensor([2, 0, 2, 2])
    whole = model(sources[rows], tokens[rows])
    for n_before in (0, 2, 4):  # also when nothing is written yet
        state = model.begin(sources)
        for time in range(n_before):
            _, state = model.advance(tokens[:, time], state)
        kept = model.keep(state, rows)
        for time in range(n_before, TIME):
            scores, kept = model.advance(tokens[rows, time], kept)
            assert torch.allclose(scores, whole[:, time], atol=1e-5)


@torch.no_grad()
def test_doubled_rows_go_their_own_ways(card, model, sources):
    _, state = model.advance(torch.tensor([0]), model.begin(sources[:1]))
    state = model.keep(state, torch.tensor([0, 0]))
    ways = torch.tensor([[0, 1, 2], [0, 2, 1]])
    whole = model(sources[:1].expand(2, -1), ways)
    for time in (1, 2):
        scores, state = model.advance(ways[:, time], state)
        assert torch.allclose(scores, whole[:, time], atol=1e-5)
    assert torch.allclose(scores[0], scores[1], atol=1e-5) == (card.name in IS_NOT_TOLD)


@torch.no_grad()
def test_no_peeking_ahead(card, model, sources, tokens):
    before = model(sources, tokens)
    for time in range(1, TIME):
        changed = tokens.clone()
        changed[:, time:] = changed[:, time:] % (model.vocab_size - 1) + 1
        after = model(sources, changed)
        assert torch.allclose(after[:, :time], before[:, :time], atol=1e-6)
        # But what stands there is seen.
        assert torch.allclose(after[:, time], before[:, time], atol=1e-4) == (card.name in IS_NOT_TOLD)


@torch.no_grad()
def test_the_whole_source_is_seen_from_everywhere(model, sources, tokens):
    before = model(sources[:1], tokens[:1])
    for place in range(SOURCE):
        changed = sources[:1].clone()
        changed[:, place] = changed[:, place] % (model.vocab_size - 1) + 1
        moved = (model(changed, tokens[:1]) - before).abs().amax(-1)
        assert (moved > 1e-5).all()


@torch.no_grad()
def test_how_far_sources_are_padded_changes_nothing(model, sources, tokens):
    whole, begun = model(sources, tokens), model.advance(tokens[:, 0], model.begin(sources))[0]
    for n_more in (1, 7):
        wider = functional.pad(sources, (0, n_more))
        assert torch.equal(model(wider, tokens), whole)
        assert torch.equal(model.advance(tokens[:, 0], model.begin(wider))[0], begun)


@torch.no_grad()
def test_items_of_a_batch_do_not_meet(model, sources, tokens):
    whole = model(sources, tokens)
    for row in range(BATCH):
        alone = sources[row][sources[row] != 0]  # not padded at all: neither the others nor their lengths matter
        assert torch.allclose(model(alone[None], tokens[row : row + 1])[0], whole[row], atol=1e-5)


def test_an_empty_source_is_one_too(card):
    model = trained(card)
    sources, tokens = sources_for(card), tokens_for(card)
    sources[1] = 0
    loss_of(model, sources, tokens).backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    model.eval()
    with torch.no_grad():
        alone = model(torch.zeros(1, 1, dtype=torch.int64), tokens[1:2])
        assert torch.allclose(model(sources, tokens)[1], alone[0], atol=1e-5)
        begun, _ = model.advance(tokens[:, 0], model.begin(sources))
        assert torch.allclose(begun[1], alone[0, 0], atol=1e-5)


def test_every_parameter_gets_a_gradient(card):
    model = built(card)
    sources, tokens = sources_for(card, 32), tokens_for(card, 32)
    # Two steps first: from a head of zeros nothing comes back, and then nothing from projections of zeros below it.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        loss_of(model, sources, tokens).backward()
        optimizer.step()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 1e-9, name


def test_it_fits_eight_pairs(card):
    """Each source with a target that has nothing to do with it, learned by heart, and then answered without a slip."""
    model = built(card)
    sources = sources_for(card, 8, seed=3)
    targets = [row[: 1 + at % (TIME - 1)] for at, row in enumerate(draw(card, 8, TIME - 1, seed=4).tolist())]
    tokens = pad_rows([[0, *target] for target in targets])
    wanted = torch.full_like(tokens, -100)
    for row, target in enumerate(targets):
        wanted[row, : len(target) + 1] = torch.tensor([*target, 0])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    # After 150 a transformer without norms is anywhere from 0.005 to 1, by the last bits of its sums.
    for _ in range(250):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(sources, tokens).flatten(0, 1), wanted.flatten())
        if loss < 0.02:  # of 28 tokens, so that each has more than half of the probability
            break
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05
    assert greedy_answers(model, sources) == targets


def test_the_same_seed_gives_the_same_bits(card, sources, tokens):
    def run(seed: int) -> dict[str, Tensor]:
        model = built(card, seed)
        loss_of(model, sources, tokens).backward()
        return {**model.state_dict(), **{f"{name}'": p.grad for name, p in model.named_parameters()}}

    first, again = run(4), run(4)
    assert first.keys() == again.keys()
    assert all(torch.equal(first[name], again[name]) for name in first)


@torch.no_grad()
def test_saved_is_loaded(card, sources, tokens):
    model = trained(card).eval()
    other = built(card, seed=7).eval()
    assert not torch.equal(other(sources, tokens), model(sources, tokens))
    other.load_state_dict(safetensors.torch.load(safetensors.torch.save(model.state_dict())))
    assert torch.equal(other(sources, tokens), model(sources, tokens))


@torch.no_grad()
def test_made_ready_for_inference_the_original_stays(card, sources, tokens):
    model = trained(card)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    ready = model.for_inference()
    assert model.training
    assert not ready.training
    for parameter in ready.parameters():
        parameter.zero_()
    assert model.state_dict().keys() == before.keys()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    again = model.for_inference().for_inference()
    assert torch.allclose(again(sources, tokens), model.eval()(sources, tokens), atol=1e-5)


def test_the_first_loss_is_that_of_guessing(card):
    torch.manual_seed(0)
    model = card.build(card.of_size("medium", card.tiny.vocab_size, SOURCE, TIME - 1))
    loss = loss_of(model, sources_for(card, 64), tokens_for(card, 64)).item()
    assert abs(loss - math.log(card.tiny.vocab_size)) < 0.05 * math.log(card.tiny.vocab_size)


@pytest.mark.parametrize("size", SIZES)
def test_sizes_are_for_every_data(card, size):
    for vocab_size, longest_source, longest_target in ((2, 1, 1), (11, 8, 8), (27, 3, 40), (300, 64, 2)):
        model = card.build(card.of_size(size, vocab_size, longest_source, longest_target)).eval()
        assert (model.vocab_size, model.longest_source, model.longest_target) == (
            vocab_size,
            longest_source,
            longest_target,
        )
        with torch.no_grad():
            full = model(
                torch.ones(1, longest_source, dtype=torch.int64), torch.ones(1, longest_target + 1, dtype=torch.int64)
            )
        assert full.shape == (1, longest_target + 1, vocab_size)


def test_sizes_grow(card):
    numbers = [card.build(card.of_size(size, 11, 8, 8)).n_parameters for size in SIZES]
    assert numbers == sorted(set(numbers))


def test_a_configuration_comes_back_from_its_stored_form(card):
    stored = dataclasses.asdict(card.tiny)
    assert card.config_from(stored) == card.tiny
    with pytest.raises(PellucidError, match=rf"'vocab_sise' is no setting of {card.name}\. Perhaps .* vocab_size"):
        card.config_from({**stored, "vocab_sise": 3})
    stored.pop("longest_source")
    with pytest.raises(PellucidError, match=f"longest_source of {card.name} is missing"):
        card.config_from(stored)


def test_an_impossible_setting_is_refused(card):
    declared = options_of(card.config)
    for field in dataclasses.fields(card.config):
        if field.type in ("int", int):
            noun = (field.name in declared and declared[field.name].noun) or field.name.replace("_", "[ _]")
            with pytest.raises(PellucidError, match=rf"^{noun} is 0\. The nearest that can be is 1\.$"):
                dataclasses.replace(card.tiny, **{field.name: 0})
    for wrong, said in (
        ({"n_heads": 3}, r"^width 16 cannot be shared equally by 3 heads\. The nearest that can is 15\.$"),
        ({"dropout": 1.0}, r"^dropout is 1\. Choose a number from 0 to 0\.9999, such as 0\.1\.$"),
        ({"positions": "rotory"}, r"^there is no position encoding called 'rotory'\. Perhaps you meant rotary\.$"),
        ({"positions": "rotary", "n_heads": 16}, r"has one left over\. Choose width 32, or learned positions\.$"),
        ({"form": "past"}, r"^there is no form of block called 'past'\. Perhaps you meant post\.$"),
        ({"cell": "gruu"}, r"^there is no recurrent cell called 'gruu'\. Perhaps you meant gru\.$"),
        ({"attention": "dott"}, r"^there is no kind of attention called 'dott'\. Perhaps you meant dot\.$"),
    ):
        if set(wrong) <= {field.name for field in dataclasses.fields(card.config)}:
            with pytest.raises(PellucidError, match=said):
                dataclasses.replace(card.tiny, **wrong)


def test_two_directions_share_the_width():
    with pytest.raises(PellucidError, match=r"^width 15 cannot be shared equally by 2 directions\. The nearest"):
        dataclasses.replace(CARDS["rnn-encoder-decoder"].tiny, width=15)


@torch.no_grad()
def test_what_is_too_long_is_refused_in_one_line(card, model, sources, tokens):
    too_long = r"^a source of 6 tokens came, and this network was made for 5\. Give it at most 5, or train .*\.$"
    for call in (lambda long: model(long, tokens[:1]), model.begin):
        with pytest.raises(PellucidError, match=too_long):
            call(torch.ones(1, SOURCE + 1, dtype=torch.int64))
    too_long = r"^a target of 5 tokens came, and this network was made for 4\. Give it at most 4, or train .*\.$"
    with pytest.raises(PellucidError, match=too_long):
        model(sources, functional.pad(tokens, (0, 1), value=1))
    state = model.begin(sources)
    for time in range(TIME):
        _, state = model.advance(tokens[:, time], state)
    with pytest.raises(PellucidError, match=too_long):
        model.advance(tokens[:, 0], state)


def test_rows_do_not_meet_in_training_either(card, sources, tokens):
    model = trained(card)
    assert not model.rows_meet
    changed = sources.clone()
    changed[1:] = sources[:-1]
    assert torch.allclose(model(sources, tokens)[0], model(changed, tokens)[0], atol=1e-5)
