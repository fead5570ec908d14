"""What influences what, against loops, masks and derivatives that are written out here."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.errors import PellucidError
from pellucid.inspection.doctor import build_specimen, diagnose, with_time
from pellucid.inspection.instrument.influence import (
    all_outputs,
    batch_axis,
    chosen_slices,
    grid_influence,
    influence,
    is_measured_causal,
    sees_past_alone,
    target_shifts,
    time_axes,
)
from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen
from pellucid.inspection.rules.crossed_view import crosses_axes

pytestmark = pytest.mark.usefixtures("one_thread")


def severities(specimen: Specimen, rule: str) -> list[str]:
    return [one.severity for one in diagnose(specimen, [rule]).findings if one.rule == rule]


class Recurrent(nn.Module):
    """Reads numbers (.., 3) and tells numbers (.., 3)."""

    def __init__(self, **settings: bool) -> None:
        super().__init__()
        self.gru = nn.GRU(3, 8, **settings)
        self.head = nn.Linear(16 if self.gru.bidirectional else 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.gru(x)[0])
        return out


class Padded(nn.Module):
    """A convolution over (batch, channels, time), padded by so many before and behind."""

    def __init__(self, before: int, behind: int, dilation: int = 1) -> None:
        super().__init__()
        self.pad, self.conv = (before, behind), nn.Conv1d(2, 2, 3, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(functional.pad(x, self.pad))
        return out


def series(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def following(model: nn.Module, numbers: Tensor, axis: int) -> Specimen:
    """A model that is asked for the numbers one place further along an axis."""
    size = numbers.shape[axis] - 1
    return Specimen(model, (numbers.narrow(axis, 0, size),), numbers.narrow(axis, 1, size), nn.MSELoss())


@pytest.mark.parametrize("dilation", [1, 2])
def test_influence_along_time_is_where_the_jacobian_is_not_zero(dilation):
    with fixed_rng():
        model = Padded(dilation, dilation, dilation)
    numbers = series(2, 2, 9)
    seen = influence(Specimen(model, (numbers,)), place=0, axis=2)[2]
    jacobian = torch.autograd.functional.jacobian(model, numbers)  # (b, c, t, b, c, t)
    expected = (jacobian != 0).any(0).any(0).any(1).any(1).T  # (inputs, outputs)
    assert torch.equal(seen.felt, expected)


def test_influence_of_tokens_is_what_a_mask_lets_through():
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = nn.Embedding(7, 4), nn.Linear(4, 2)
            self.register_buffer("mask", torch.rand(6, 6, generator=torch.Generator().manual_seed(1)) > 0.5)

        def forward(self, tokens: Tensor) -> Tensor:
            out: Tensor = self.head(self.mask.to(self.head.weight) @ self.embedding(tokens).tanh())
            return out

    with fixed_rng():
        model, tokens = Masked(), torch.randint(7, (3, 6))
    seen = influence(Specimen(model, (tokens,)), place=0, axis=1)
    assert torch.equal(seen[1].felt, model.mask.T)
    assert torch.equal(influence(Specimen(model, (tokens,)), 0, 0)[0].felt, torch.eye(3, dtype=torch.bool))


def test_a_grid_is_counted_row_by_row():
    with fixed_rng():
        model = nn.Conv2d(1, 1, 3, padding=1)
    seen = grid_influence(Specimen(model, (series(1, 1, 4, 5),)), 0)
    places = torch.tensor([(row, column) for row in range(4) for column in range(5)])
    near = (places[:, None] - places[None]).abs().amax(-1) <= 1
    assert torch.equal(seen.felt, near)
    assert sees_past_alone(seen) is False


def test_few_slices_are_spread_over_a_long_axis():
    assert chosen_slices(5) == (0, 1, 2, 3, 4)
    chosen = chosen_slices(1000, 10)
    assert len(chosen) == 10
    assert (chosen[0], chosen[-1]) == (0, 999)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("by", [1, 0, -1, 2])
def test_the_axis_and_the_shift_of_targets_are_found(axis, by):
    numbers = series(9, 9, 9)
    given, asked = numbers.narrow(axis, 2, 5), numbers.narrow(axis, 2 + by, 5)
    specimen = Specimen(nn.Identity(), (given,), asked, nn.MSELoss())
    found = {(shift.axis, shift.by) for shift in target_shifts(specimen)}
    assert found == ({(0, 0), (1, 0), (2, 0)} if by == 0 else {(axis, by)})
    assert batch_axis(specimen) == (1 if axis == 0 and by else 0)


def test_one_column_of_many_may_be_asked_for():
    numbers = series(4, 9, 5)
    specimen = Specimen(nn.Linear(5, 1), (numbers[:, :-1],), numbers[:, 1:, 3:4], nn.MSELoss())
    assert [(shift.axis, shift.by) for shift in target_shifts(specimen)] == [(1, 1)]


def test_causality_is_measured_in_every_layout():
    with fixed_rng():
        patients = {
            "batch first": (following(Recurrent(batch_first=True), series(4, 9, 3), 1), True),
            "time first": (following(Recurrent(), series(9, 4, 3), 0), True),
            "both directions": (following(Recurrent(batch_first=True, bidirectional=True), series(4, 9, 3), 1), False),
            "both directions, time first": (following(Recurrent(bidirectional=True), series(9, 4, 3), 0), False),
            "padded on the left": (following(Padded(2, 0), series(4, 2, 12), 2), True),
            "padded on both sides": (following(Padded(1, 1), series(4, 2, 12), 2), False),
        }
    for name, (specimen, is_causal) in patients.items():
        assert is_measured_causal(specimen, time_axes(specimen)[0]) is is_causal, name
        assert severities(specimen, "future-leak") == (["sound"] if is_causal else ["broken"]), name
        assert "broken" not in severities(specimen, "batch-mixing"), name


def test_what_is_said_of_time_is_taken():
    with fixed_rng():
        model, numbers = Padded(1, 1), series(4, 2, 12)
    assert severities(Specimen(model, (numbers,), is_causal=True, time_axis=2), "future-leak") == ["broken"]
    assert severities(Specimen(Padded(2, 0), (numbers,), is_causal=True), "future-leak") == ["sound"]
    assert build_specimen(model, numbers, time_axis=-1).time_axis == 2
    with pytest.raises(PellucidError, match="axes"):
        with_time(Specimen(model, (numbers,)), None, 3)


def test_a_leak_at_one_place_is_seen_where_nothing_is_said():
    class Leaks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.reader = Recurrent(batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            out = self.reader(x).clone()
            out[:, 3] += out[:, 4]
            return out

    with fixed_rng():
        leaking, plain = Leaks(), Recurrent(batch_first=True)
    assert severities(Specimen(leaking, (series(4, 9, 3),)), "future-leak") == ["suspicious"]
    assert severities(Specimen(plain, (series(4, 9, 3),)), "future-leak") == ["sound"]


def test_every_tensor_that_is_put_out_counts():
    class Two(nn.Module):
        def forward(self, one: Tensor, other: Tensor) -> dict[str, Tensor]:
            return {"one": one.sin(), "other": other.cos()}

    specimen = Specimen(Two(), (series(4, 3), series(4, 3) + 1))
    before, after = all_outputs(specimen), all_outputs(specimen, (specimen.inputs[0], specimen.inputs[1] * 2))
    assert not torch.equal(before, after)
    assert severities(specimen, "inert-inputs") == ["sound"]


@pytest.mark.parametrize(
    ("before", "after", "crosses"),
    [
        ((8, 12, 32), (8, 12, 4, 8), False),
        ((8, 12, 32), (8, 4, 12, 8), True),
        ((8, 4, 12, 8), (8, 12, 32), True),
        ((4, 16, 9), (16, 36), True),
        ((8, 7, 6, 3), (8, 3, 7, 6), True),
        ((8, 7, 6, 3), (8, 42, 3), False),
        ((8, 1, 12), (8, 12, 1), False),
        ((2, 4, 6, 7), (2, 4, 7, 6), False),  # scores of distances, moved to their places
        ((6, 10), (3, 2, 10), False),
        ((6, 10), (60,), False),
    ],
)
def test_a_view_crosses_axes_where_a_transpose_would_have_its_shape(before, after, crosses):
    assert crosses_axes(before, after) is crosses


def test_a_view_that_agrees_by_chance_is_seen_with_one_row_more():
    class Folded(nn.Module):
        """(batch, 32) with heads of as many numbers as there are rows, folded into the batch as torch does it."""

        def forward(self, x: Tensor) -> Tensor:
            return x.reshape(len(x) * 4, 8).sin().reshape(len(x), 32)

    assert crosses_axes((8, 32), (32, 8))
    assert severities(Specimen(Folded(), (series(8, 32),)), "crossed-view") == ["sound"]


@pytest.mark.parametrize("kind", [torch.uint8, torch.int8, torch.int16])
def test_arithmetic_that_wraps_is_the_one_that_differs_in_64_bits(kind):
    class Scaled(nn.Module):
        def __init__(self, by: int) -> None:
            super().__init__()
            self.by, self.head = by, nn.Linear(6, 2)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.head((x * self.by).float())
            return out

    numbers = torch.randint(1, 100, (8, 6), generator=torch.Generator().manual_seed(0)).to(kind)
    with fixed_rng():
        models = {by: Scaled(by) for by in (1, 1000)}
    for by, model in models.items():
        wraps = not torch.equal((numbers * by).long(), numbers.long() * by)
        assert severities(Specimen(model, (numbers,)), "lost-precision") == (["broken"] if wraps else ["sound"])


class Made(nn.Module):
    """A model of a function and a few layers."""

    def __init__(self, forward, **parts: nn.Module) -> None:
        super().__init__()
        self.function = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs: Tensor) -> Tensor:
        out: Tensor = self.function(self, *inputs)
        return out


def table(forward, **parts: nn.Module) -> Specimen:
    """A model of rows of six numbers each, far from whole ones."""
    return Specimen(Made(forward, **parts), (3 * series(16, 6),), torch.arange(16) % 3, nn.CrossEntropyLoss())


def texts(forward, **parts: nn.Module) -> Specimen:
    """A model of texts of eight out of twenty tokens."""
    tokens = torch.randint(20, (16, 8), generator=torch.Generator().manual_seed(0))
    return Specimen(Made(forward, **parts), (tokens,), torch.arange(16) % 3, nn.CrossEntropyLoss())


def padded(forward, loss=None, **parts: nn.Module) -> Specimen:
    """A model of sequences of numbers that zeros fill up, and of their lengths, with a number to tell at each place."""
    lengths = torch.tensor([9, 4, 6, 5, 7, 3])
    is_real = torch.arange(9) < lengths[:, None]
    numbers = series(6, 9, 3) * is_real[..., None]

    def masked(outputs: Tensor, targets: Tensor) -> Tensor:
        return ((outputs - targets).square().mean(-1) * is_real).sum() / is_real.sum()

    return Specimen(Made(forward, **parts), (numbers, lengths), series(6, 9, 2), loss or masked)


def recurrent(model: nn.Module, numbers: Tensor, lengths: Tensor) -> Tensor:
    return model.head(model.gru(numbers)[0])


BOTH = {
    "tokens that are clamped": (
        "inert-inputs",
        lambda: texts(lambda m, x: m.h(m.e(x.clamp(max=9)).mean(1)), e=nn.Embedding(20, 8), h=nn.Linear(8, 3)),
        lambda: texts(lambda m, x: m.h(m.e(x).mean(1)), e=nn.Embedding(20, 8), h=nn.Linear(8, 3)),
    ),
    "columns that are left out": (
        "inert-inputs",
        lambda: table(lambda m, x: m.h(x[:, :4]), h=nn.Linear(4, 3)),
        lambda: table(lambda m, x: m.h(x), h=nn.Linear(6, 3)),
    ),
    "columns as a whole": (
        "inert-inputs",
        lambda: table(lambda m, x: m.h(x.mean(-1, keepdim=True)), h=nn.Linear(1, 3)),
        lambda: table(lambda m, x: m.h(x), h=nn.Linear(6, 3)),
    ),
    "the first step of a recurrence": (
        "inert-inputs",
        lambda: texts(lambda m, x: m.h(m.g(m.e(x))[0][:, 0]), e=nn.Embedding(20, 8), g=gru(), h=nn.Linear(8, 3)),
        lambda: texts(lambda m, x: m.h(m.g(m.e(x))[0][:, -1]), e=nn.Embedding(20, 8), g=gru(), h=nn.Linear(8, 3)),
    ),
    "fractions that are cut": (
        "lost-precision",
        lambda: table(lambda m, x: m.h(m.e(x.long() + 20).flatten(1)), e=nn.Embedding(64, 4), h=nn.Linear(24, 3)),
        lambda: table(lambda m, x: m.h(x), h=nn.Linear(6, 3)),
    ),
    "padding that is averaged": (
        "mask-polarity",
        lambda: padded(lambda m, x, n: m.h(x.cos().mean(1)).unsqueeze(1).expand(-1, 9, -1), h=nn.Linear(3, 2)),
        lambda: padded(recurrent, gru=nn.GRU(3, 8, batch_first=True), head=nn.Linear(8, 2)),
    ),
    "a loss of all places": (
        "loss-over-padding",
        lambda: padded(recurrent, nn.MSELoss(), gru=nn.GRU(3, 8, batch_first=True), head=nn.Linear(8, 2)),
        lambda: padded(recurrent, gru=nn.GRU(3, 8, batch_first=True), head=nn.Linear(8, 2)),
    ),
    "an image whose axes are swapped": (
        "scrambled-positions",
        lambda: Specimen(Made(lambda m, x: m.c(x).mT, c=nn.Conv2d(1, 2, 3, padding=1)), (series(2, 1, 8, 8),)),
        lambda: Specimen(Made(lambda m, x: m.c(x), c=nn.Conv2d(1, 2, 3, padding=1)), (series(2, 1, 8, 8),)),
    ),
}


def gru() -> nn.Module:
    return nn.GRU(8, 8, batch_first=True)


@pytest.mark.parametrize("name", BOTH)
def test_what_is_broken_is_told_from_what_is_not(name):
    rule, sick, well = BOTH[name]
    with fixed_rng():
        assert {"broken", "suspicious"} & set(severities(sick(), rule))
        assert set(severities(well(), rule)) == {"sound"}


def test_bytes_that_wrapped_around_before_they_were_read():
    images = 128 + 6 * torch.randn(8, 1, 12, 12, generator=torch.Generator().manual_seed(0))
    images = images.round().to(torch.uint8)
    with fixed_rng():
        model = nn.Sequential(nn.Flatten(), nn.Linear(144, 3))
    assert severities(Specimen(model, ((images - 128).float() / 128,)), "lost-precision") == ["suspicious"]
    assert severities(Specimen(model, ((images.float() - 128) / 128,)), "lost-precision") == ["sound"]
