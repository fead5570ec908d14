"""The exam's model set by hand, beside the same computed with fractions, and what its key says of the variants."""

import math
from fractions import Fraction

import pytest
import torch

from pellucid.errors import PellucidError
from pellucid.lessons.hand_set_attention import (
    COMBINATION,
    EXAMPLE,
    IDENTITY,
    HandSetDecoder,
    HandSetKnobs,
    HandSetPass,
    encode_tokens,
    measure,
    trace_pass,
)
from pellucid.lessons.position_encodings import PositionEncoding, encoding_of, new_encoding
from pellucid.lessons.road_to_attention import AttentionRoad, RoadKnobs
from pellucid.lessons.road_to_attention import measure as measure_road
from pellucid.records import as_plain
from pellucid.records.plain import from_plain

pytestmark = pytest.mark.usefixtures("one_thread")

W = {"A": (0, 3), "B": (1, 2), "C": (2, 1), "D": (3, 0), "START": (0, 0), "STOP": (0, 0)}  # E · W_Q, row by row


def by_fractions(tokens):
    """The attention matrix and Z in exact fractions, from the sentence of the exam alone."""
    attention, z = [], []
    for here, token in enumerate(tokens):
        scores = [sum(a * b for a, b in zip(W[token], W[other], strict=True)) for other in tokens[: here + 1]]
        best = [place for place, score in enumerate(scores) if score == max(scores)]
        row = [Fraction(place in best, len(best)) for place in range(len(tokens))]
        attention.append(row)
        z.append([sum(share * W[other][k] for share, other in zip(row, tokens, strict=True)) for k in (0, 1)])
    return attention, z


@pytest.mark.parametrize("words", ["D A A START A D STOP", "C B B A C START A B C STOP", "START STOP"])
def test_the_numbers_are_those_of_fractions(words):
    tokens = words.split()
    shown = trace_pass(HandSetDecoder(is_hard=True), "hard", tokens)
    attention, z = by_fractions(tokens)
    for found, exact in ((shown.attention, attention), (shown.z, z)):
        assert torch.allclose(
            torch.tensor(found, dtype=torch.float64),
            torch.tensor([[float(x) for x in r] for r in exact], dtype=torch.float64),
            atol=1e-14,
        )
    for row, (first, second) in zip(shown.logits, z, strict=True):
        assert row == pytest.approx([float(second), float(first)] * 2 + [0, 0], abs=1e-14)


def test_the_exams_own_numbers():
    shown = trace_pass(HandSetDecoder(is_hard=True), "hard")
    exams = [(3, 0), (0, 3), (0, 3), (3 / 4, 3 / 2), (0, 3), (3, 0), (6 / 7, 9 / 7)]
    for row, exam in zip(shown.z, exams, strict=True):
        assert row == pytest.approx(exam, abs=1e-14)
    assert shown.logits[4] == pytest.approx([3, 0, 3, 0, 0, 0])
    assert shown.logits[5] == pytest.approx([0, 3, 0, 3, 0, 0])
    assert shown.logits[6] == pytest.approx([9 / 7, 6 / 7, 9 / 7, 6 / 7, 0, 0])
    assert [round(p, 4) for p in shown.own] == [0.4547, 0.4547, 0.0717]
    assert round(shown.unshifted_loss, 4) == 4.2114
    assert shown.attention[6] == pytest.approx([1 / 7] * 7)
    assert shown.attention[4] == pytest.approx([0, 1 / 3, 1 / 3, 0, 1 / 3, 0, 0])


def test_the_loss_by_torch():
    """Unshifted is the exam's; shifted scores a token before it was read, and is more than twice as high."""
    shown = trace_pass(HandSetDecoder(is_hard=True), "hard")
    logits, places = torch.tensor(shown.logits, dtype=torch.float64), encode_tokens(EXAMPLE)
    loss = torch.nn.functional.cross_entropy
    assert shown.unshifted_loss == pytest.approx(loss(logits[4:], places[4:], reduction="sum").item(), abs=1e-12)
    assert shown.shifted_loss == pytest.approx(loss(logits[3:-1], places[4:], reduction="sum").item(), abs=1e-12)
    by_hand = -math.log(math.exp(1.5) / (2 * math.exp(1.5) + 2 * math.exp(0.75) + 2)) + 2 * math.log(
        2 * math.exp(3) + 4
    )
    assert shown.shifted_loss == pytest.approx(by_hand, abs=1e-12)


def test_softargmax_at_the_root_of_d_is_nearly_as_sharp():
    soft = trace_pass(HandSetDecoder(is_hard=False), "soft")
    queries = torch.tensor([W[token] for token in EXAMPLE], dtype=torch.float64)
    scores = (queries @ queries.t() / math.sqrt(2)).masked_fill(torch.ones(7, 7).triu(1) == 1, -math.inf)
    assert torch.allclose(torch.tensor(soft.attention, dtype=torch.float64), scores.softmax(-1), atol=1e-14)
    # "A" asks its own kind with 9/√2 and all others with 0.
    share = math.exp(9 / math.sqrt(2))
    assert soft.attention[4][1] == pytest.approx(share / (3 * share + 2), abs=1e-14)
    assert soft.attention[6] == pytest.approx([1 / 7] * 7)  # STOP asks nothing, at any temperature
    assert soft.unshifted_loss == pytest.approx(4.2131, abs=5e-5)


def test_two_heads_with_the_identity_are_not_the_same_model():
    """The key says "identical result". The attention is; but W_O exchanged two numbers, which the identity does not."""
    one, _, two = measure(HandSetKnobs()).variants
    assert two.attention == one.attention
    assert two.z == tuple(row * 2 for row in one.z)
    for row, before in zip(two.logits, one.logits, strict=True):
        assert row == pytest.approx([before[1], before[0], before[3], before[2], 0, 0])
    assert two.unshifted_loss == pytest.approx(10.2114, abs=5e-5)
    # What does give the same: the two numbers of each head exchanged.
    exchanged = ((0, 1, 0, 0), (1, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 0))
    same = trace_pass(HandSetDecoder(is_hard=True, combination=exchanged), "exchanged")
    assert same.logits == one.logits
    assert same.unshifted_loss == one.unshifted_loss


@pytest.mark.parametrize("combination", [COMBINATION, IDENTITY], ids=["one head", "two heads"])
def test_the_gradient_of_each_matrix_is_the_measured_one(combination):
    """Through softargmax every matrix learns. Through argmax queries and keys do not: the best key stays the best."""
    places = encode_tokens(EXAMPLE)

    def loss(model: HandSetDecoder) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(model(places)[3:-1], places[4:], reduction="sum")

    for is_hard in (False, True):
        model = HandSetDecoder(is_hard=is_hard, combination=combination)
        loss(model).backward()
        for name, matrix in model.named_matrices().items():
            if is_hard and name in ("queries", "keys"):
                assert matrix.grad is None
                continue
            # The embedding of hard attention would break ties when nudged, so it is left out.
            if is_hard and name == "embedding":
                continue
            flat, step = matrix.data.view(-1), 1e-6
            for place in range(len(flat)):
                kept = flat[place].item()
                flat[place] = kept + step
                above = loss(model).item()
                flat[place] = kept - step
                below = loss(model).item()
                flat[place] = kept
                assert matrix.grad.view(-1)[place].item() == pytest.approx((above - below) / (2 * step), abs=1e-7), name


@pytest.mark.parametrize("combination", [COMBINATION, IDENTITY], ids=["one head", "two heads"])
@pytest.mark.parametrize("is_hard", [True, False])
def test_a_batch_is_its_rows(is_hard, combination):
    model = HandSetDecoder(is_hard=is_hard, combination=combination)
    rows = [encode_tokens(words.split()) for words in ("D A A START A D STOP", "C B B C START B C")]
    logits = model(torch.stack(rows))
    for found, row in zip(logits, rows, strict=True):
        assert torch.allclose(found, model(row), atol=1e-14)


def test_what_is_no_example_is_refused():
    with pytest.raises(PellucidError, match=r"'E' is no token of this model\. It has A, B, C, D, START, STOP"):
        encode_tokens(["E", "START", "STOP"])
    for words in ("A B STOP", "A START", "START A START STOP"):
        with pytest.raises(PellucidError, match="has no one START with an output behind it"):
            encode_tokens(words.split())


@pytest.mark.parametrize("words", [*range(3)])
def test_records_come_back_from_their_stored_form(words):
    shown = measure(HandSetKnobs()).variants[words]
    assert from_plain(HandSetPass, as_plain(shown)) == shown


def test_the_road_as_a_record():
    shown = measure_road(RoadKnobs("bad dab", seed=3))
    assert from_plain(AttentionRoad, as_plain(shown)) == shown
    assert shown.averaging == shown.softmax_of_wei
    weights = torch.tensor(shown.weights)
    assert torch.allclose(weights.sum(-1), torch.ones(7))
    assert torch.equal(weights.triu(1), torch.zeros(7, 7))
    assert not torch.allclose(weights, torch.tensor(shown.averaging), atol=0.05)
    # Equal letters ask alike: of what both saw, the last "b" takes in the same proportions as the first one would.
    assert shown.weights[6][0] == pytest.approx(shown.weights[6][6], rel=1e-5)
    assert measure_road(RoadKnobs("bad dab", seed=3)) == shown
    with pytest.raises(PellucidError, match="the text is empty"):
        measure_road(RoadKnobs(""))


@pytest.mark.parametrize("kind", ["none", "index", "sinusoidal", "learned", "rotary", "relative", "alibi"])
def test_positions_as_a_record(kind):
    shown = new_encoding(kind, length=5, width=4)
    assert from_plain(PositionEncoding, as_plain(shown)) == shown
    products = torch.tensor(shown.products)
    assert products.shape == (5, 5)
    if kind in ("sinusoidal", "rotary"):  # the same length for each, and the distance alone
        for distance in range(5):
            diagonal = products.diagonal(distance)
            assert torch.allclose(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-5)
        assert products[0, 0].item() == pytest.approx(2)
    if shown.encodings:
        encodings = torch.tensor(shown.encodings)
        assert torch.allclose(products, encodings @ encodings.t(), atol=1e-5)
    else:
        assert shown.acts_on == "scores"


def test_positions_that_cannot_be_shown_are_refused():
    with pytest.raises(PellucidError, match=r"no position encoding called 'rotery'\. Perhaps you meant rotary"):
        new_encoding("rotery", length=5, width=4)
    with pytest.raises(PellucidError, match="turn pairs, and 5 is odd"):
        new_encoding("rotary", length=5, width=5)


def test_a_trained_networks_positions_can_be_shown():
    from pellucid.models.sequences.configs import TransformerConfig
    from pellucid.models.sequences.transformer import Transformer

    model = Transformer(TransformerConfig(5, context=6, width=8, depth=1, n_heads=2, positions="learned"))
    shown = encoding_of("learned", model.positions, 6)
    assert torch.allclose(torch.tensor(shown.encodings), model.positions.table.weight)
