"""Batch normalisation: what it does to a distribution, to biases and to single examples, and folded after training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, yes
from pellucid.claims.learning_rates import split_list_or_text
from pellucid.claims.letter_pairs import DATA
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor

MODES = ("train", "eval")


@dataclass(frozen=True)
class NormShapeKnobs:
    shape: str = option("exponential", "Distribution of the pre-activations", choices=("exponential", "normal"))
    changed: str = option("gain", "Which of the two learned terms is set to 2", choices=("gain", "bias"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_norm_shape(knobs: NormShapeKnobs) -> Numbers:
    """Mean, deviation and skewness behind batch norm; and what gain or bias, set to 2, do to the first two."""
    import torch

    from pellucid.layers.norms import BatchNorm

    rng = torch.Generator().manual_seed(knobs.seed)
    drawn = (
        torch.rand(20_000, 4, generator=rng).log().neg()
        if knobs.shape == "exponential"
        else torch.randn(20_000, 4, generator=rng)
    )
    norm = BatchNorm(4)
    with torch.no_grad():
        out = norm(drawn)
        parameter = norm.gain if knobs.changed == "gain" else norm.bias
        parameter.fill_(2.0)
        changed = norm(drawn)
    return {
        "skewness": ((out - out.mean(0)) ** 3).mean(0).mean().item(),
        "mean": out.mean().item(),
        "deviation": out.std(0).mean().item(),
        "mean after": changed.mean().item(),
        "deviation after": changed.std(0).mean().item(),
    }


@dataclass(frozen=True)
class BiasBeforeNormKnobs:
    norm: str = option("batch", "Norm behind the linear layer", choices=("none", "batch", "layer"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_bias_gradient(knobs: BiasBeforeNormKnobs) -> Numbers:
    """The largest gradient of a linear layer's bias, beside that of its weights."""
    import torch
    from torch import nn

    from pellucid.layers.norms import build_norm
    from pellucid.training.rng import seed_torch

    with seed_torch(knobs.seed, 0, "weights"):
        linear, head = nn.Linear(10, 16).double(), nn.Linear(16, 5).double()
        norm, x, y = build_norm(knobs.norm, 16, 4).double(), torch.randn(64, 10).double(), torch.randint(0, 5, (64,))
    nn.functional.cross_entropy(head(norm(linear(x)).tanh()), y).backward()  # type: ignore[no-untyped-call]
    assert linear.bias.grad is not None
    assert linear.weight.grad is not None
    return {"of the bias": linear.bias.grad.abs().max().item(), "of the weights": linear.weight.grad.abs().max().item()}


@dataclass(frozen=True)
class UnitVarianceKnobs:
    correlation: float = option(0.5, "Correlation of every two inputs.", minimum=0, maximum=0.99)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_unit_variance(knobs: UnitVarianceKnobs) -> Numbers:
    """W Var[X] Wᵀ of one unit beside the squares of its weights times the variances, for 10 correlated inputs."""
    import torch

    weights = torch.randn(10, generator=torch.Generator().manual_seed(knobs.seed), dtype=torch.float64)
    covariance = torch.full((10, 10), knobs.correlation, dtype=torch.float64)
    covariance.fill_diagonal_(1.0)
    whole, squares = (weights @ covariance @ weights).item(), weights.square().sum().item()
    return {"apart by": abs(whole - squares) / whole, "W Var Wᵀ": whole, "W² Var": squares}


def unit_variance_closed_form(knobs: UnitVarianceKnobs) -> Numbers:
    """(1 - r) Σw² + r (Σw)², for one correlation r of all."""
    import torch

    drawn = torch.randn(10, generator=torch.Generator().manual_seed(knobs.seed), dtype=torch.float64).tolist()
    squares = sum([w * w for w in drawn])
    whole, mixed = (1 - knobs.correlation) * squares + knobs.correlation * sum(drawn) ** 2, sum(drawn) ** 2 - squares
    return {"W Var Wᵀ": whole, "apart by": knobs.correlation * abs(mixed) / whole}


@dataclass(frozen=True)
class ControlledStackKnobs:
    norm: str = option("batch", "Norm before every tanh", choices=("none", "batch"))
    gain: float = option(5.0, "Deviation of the weights times √fan-in, far too large.", minimum=0.01, maximum=100)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_controlled_stack(knobs: ControlledStackKnobs) -> Numbers:
    """What goes into the last tanh of ten layers whose weights are too large."""
    import torch

    from pellucid.layers.norms import build_norm

    rng = torch.Generator().manual_seed(knobs.seed)
    x = torch.randn(256, 100, generator=rng)
    for _ in range(10):
        z = x @ (torch.randn(100, 100, generator=rng) * knobs.gain / 10)
        z = build_norm(knobs.norm, 100, 1)(z).detach()
        x = z.tanh()
    return {"deviation": z.std().item(), "saturated": (x.abs() > 0.99).double().mean().item()}


@dataclass(frozen=True)
class ExampleAndBatchKnobs:
    norm: str = option("batch", "Norm of the hidden layer", choices=("batch", "layer", "group", "instance"))
    mode: str = option("train", "As in training, or as at inference", choices=MODES)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class RowNormKnobs(ExampleAndBatchKnobs):
    norm: str = option(
        "all others", "Norm of the hidden layer, or layer, group and instance norm", choices=("batch", "all others")
    )


def _apart(kind: str, mode: str, seed: int) -> float:
    """By how much the logits of one example differ between two batches that it stands in."""
    import torch
    from torch import nn

    from pellucid.layers.norms import build_norm
    from pellucid.training.rng import seed_torch

    with seed_torch(seed, 0, "weights"):
        model = nn.Sequential(nn.Linear(10, 32), build_norm(kind, 32, 4), nn.Tanh(), nn.Linear(32, 5))
        example, first, second = (torch.randn(n, 10) for n in (1, 31, 31))
    model.train(mode == "train")
    with torch.no_grad():
        one, two = (model(torch.cat([example, rest]))[0] for rest in (first, second))
    return float((one - two).abs().max().item())


def measure_two_batches(knobs: ExampleAndBatchKnobs) -> Numbers:
    """The same for the norms that are asked about."""
    kinds = ("layer", "group", "instance") if knobs.norm == "all others" else (knobs.norm,)
    found = {kind: _apart(kind, knobs.mode, knobs.seed) for kind in kinds}
    return {"furthest apart": max(found.values()), **found}


def measure_one_input(knobs: ExampleAndBatchKnobs) -> Numbers:
    """Whether torch's batch norm takes a single example, and how different two of them come out by its formula."""
    import torch
    from torch import nn

    norm = nn.BatchNorm1d(8).train(knobs.mode == "train")
    first, second = torch.randn(2, 1, 8, generator=torch.Generator().manual_seed(knobs.seed)).unbind()
    try:
        with torch.no_grad():
            apart = (norm(first) - norm(second)).abs().max().item()
    except ValueError:
        # By the formula x less its own mean is 0, whatever x is.
        return {
            "is taken": 0.0,
            "two come out apart by": ((first - first.mean(0)) - (second - second.mean(0))).abs().max().item(),
        }
    return {"is taken": 1.0, "two come out apart by": apart}


@dataclass(frozen=True)
class RunningKnobs:
    batches: int = option(200, "Batches of 32 that are read in training.", minimum=1, maximum=10_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_running(knobs: RunningKnobs) -> Numbers:
    """Running statistics of features with mean 5 and deviation 2, and the answer for a single example."""
    import torch

    from pellucid.layers.norms import BatchNorm

    rng = torch.Generator().manual_seed(knobs.seed)
    norm = BatchNorm(16)
    with torch.no_grad():
        for _ in range(knobs.batches):
            norm(5 + 2 * torch.randn(32, 16, generator=rng))
        example = 5 + 2 * torch.randn(1, 16, generator=rng)
        found = norm.eval()(example)
    off = (found - (example - 5) / 2).abs()
    return {"single example off by": off.mean().item(), "running mean": norm.running_mean.mean().item()}


@dataclass(frozen=True)
class FoldKnobs:
    mode: str = option("eval", "As in training, or as at inference", choices=MODES)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_fold(knobs: FoldKnobs) -> Numbers:
    """A linear layer with batch norm behind it, beside one linear layer by the formula and by our own folding."""
    import torch
    from torch import nn

    from pellucid.layers.norms import BatchNorm, fold_batch_norm
    from pellucid.training.rng import seed_torch

    with seed_torch(knobs.seed, 0, "weights"), torch.no_grad():
        linear, norm = nn.Linear(10, 16).double(), BatchNorm(16).double()
        norm.gain.normal_()
        norm.bias.normal_()
        for _ in range(20):
            norm(linear(torch.randn(32, 10).double() * 2 + 1))
        x = torch.randn(32, 10).double() * 2 + 1
        scale = norm.gain / (norm.running_variance + norm.epsilon).sqrt()
        weight, bias = linear.weight * scale[:, None], (linear.bias - norm.running_mean) * scale + norm.bias
        ours = fold_batch_norm(linear, norm)(x)
        both = norm.train(knobs.mode == "train")(linear(x))
        folded = x @ weight.T + bias
    return {"furthest apart": (folded - both).abs().max().item(), "our folding": (ours - folded).abs().max().item()}


@dataclass(frozen=True)
class NormNoiseKnobs:
    data: str = option("names", DATA)
    chunk: int = option(32, "Examples that share their statistics; 0 for all of them.", minimum=0, maximum=10_000)
    steps: int = option(200, "Steps of Adam on all examples.", minimum=1, maximum=10_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_norm_noise(knobs: NormNoiseKnobs) -> Numbers:
    """A small MLP on 800 examples, all in every step, whose batch norm reads its statistics from chunks or from all."""
    import torch

    sides = split_list_or_text(knobs.data)
    size = len(sides.vocabulary)
    train, dev = (_windows(torch.from_numpy(side.tokens.astype("int64"))) for side in (sides.train, sides.dev))
    start = (knobs.seed * 997) % (len(train[0]) - 800)
    x, y = (part[start : start + 800] for part in train)
    losses = {}
    for name, chunk in (("noise", knobs.chunk or 800), ("none", 800)):
        rng = torch.Generator().manual_seed(knobs.seed)
        shapes = ((size, 8), (24, 64), (64,), (64,), (64, size), (size,))
        weights = [(torch.randn(shape, generator=rng) * 0.2).requires_grad_() for shape in shapes]
        with torch.no_grad():
            weights[2].fill_(1.0)
        optimizer = torch.optim.Adam(weights, lr=0.01)
        for _ in range(knobs.steps):
            order = torch.randperm(800, generator=rng)
            loss = torch.nn.functional.cross_entropy(_scores(weights, x[order], chunk), y[order])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        with torch.no_grad():
            for side, inputs, targets in (("train", x, y), ("dev", dev[0][:4_000], dev[1][:4_000])):
                scores = _scores(weights, torch.cat([x, inputs]), 800, n_statistics=800)[800:]
                losses[f"{side} loss, {name}"] = torch.nn.functional.cross_entropy(scores, targets).item()
    return {"dev better by": losses["dev loss, none"] - losses["dev loss, noise"], **losses}


def _windows(tokens: Tensor) -> tuple[Tensor, Tensor]:
    return tokens.unfold(0, 3, 1)[:-1], tokens[3:]


def _scores(weights: list[Tensor], x: Tensor, chunk: int, n_statistics: int = 0) -> Tensor:
    """C[x] W1, normalised by chunks, tanh, W2; with n_statistics by the first so many of all."""
    table, first, gain, bias, last, last_bias = weights
    z = table[x].flatten(1) @ first
    if n_statistics:
        seen = z[:n_statistics]
        level = (z - seen.mean(0)) / (seen.var(0, unbiased=False) + 1e-5).sqrt()
    else:
        parts = z.view(-1, chunk, z.shape[-1])
        level = (
            (parts - parts.mean(1, keepdim=True)) / (parts.var(1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        ).flatten(0, 1)
    return (level * gain + bias).tanh() @ last + last_bias


NORM, COST = "notes §15", "notes §15.1"

FAMILY = ClaimFamily(
    name="batch-normalisation",
    title="Batch normalisation",
    claims=(
        Claim(
            id="bn-makes-gaussian",
            says="batch norm makes pre-activations follow a normal distribution",
            where=NORM,
            kind="draws",
            measure=measure_norm_shape,
            decides="skewness",
            margin=lambda seen: 0.1 - abs(seen["skewness"]),
            rule="exponential inputs come out with a skewness below 0.1, as a normal distribution has 0",
            knobs=NormShapeKnobs,
            control={"shape": "normal"},
            seeds=8,
            other_reading="it gives them the mean 0 and the variance 1 of one, and leaves their shape",
        ),
        Claim(
            id="gamma-is-a-shift",
            says="the gain of batch norm shifts, as its bias does",
            where=NORM,
            kind="draws",
            measure=measure_norm_shape,
            decides="deviation after",
            margin=lambda seen: 1e-3 - abs(seen["deviation after"] - seen["deviation"]),
            rule="a gain of 2 leaves the deviation as it was, to a thousandth",
            knobs=NormShapeKnobs,
            control={"changed": "bias"},
            seeds=8,
            other_reading="it stretches; the bias shifts",
        ),
        Claim(
            id="linear-bias-zero-gradient-before-bn",
            says="the bias of a linear layer before batch norm has no gradient",
            where="notes §15 Prop.5",
            kind="draws",
            measure=measure_bias_gradient,
            decides="of the bias",
            margin=lambda seen: 1e-9 * seen["of the weights"] - seen["of the bias"],
            rule="it is less than a billionth of the weights' gradients",
            knobs=BiasBeforeNormKnobs,
            control={"norm": "none"},
            seeds=8,
        ),
        Claim(
            id="prop-5-variance-formula",
            says="the variance behind a linear layer is W² Var[X], the same as W Var[X] Wᵀ",
            where="notes §15 Prop.5",
            kind="draws",
            measure=measure_unit_variance,
            decides="apart by",
            margin=lambda seen: 1e-9 - seen["apart by"],
            rule="both are the same for inputs with a correlation of a half",
            knobs=UnitVarianceKnobs,
            control={"correlation": 0.0},
            second=unit_variance_closed_form,
            seeds=8,
            other_reading="for one input, or for inputs without correlation, they are",
        ),
        Claim(
            id="bn-controls-activations",
            says="batch norm controls the activations",
            where=NORM,
            kind="draws",
            measure=measure_controlled_stack,
            decides="deviation",
            margin=lambda seen: 0.1 - abs(seen["deviation"] - 1),
            rule="into the tenth tanh goes a deviation within 10 % of 1, though weights are five times too large",
            knobs=ControlledStackKnobs,
            control={"norm": "none"},
            seeds=8,
        ),
        Claim(
            id="bn-output-depends-on-batch",
            says="with batch norm the logits of an example depend on the batch that it is in",
            where=COST,
            kind="draws",
            measure=measure_two_batches,
            decides="furthest apart",
            margin=lambda seen: seen["furthest apart"] - 1e-3,
            rule="in two batches they differ by more than 0.001",
            knobs=ExampleAndBatchKnobs,
            control={"mode": "eval"},
            seeds=8,
        ),
        Claim(
            id="bn-cannot-take-one-input",
            says="a network with batch norm cannot be given a single input any more",
            where=COST,
            kind="draws",
            measure=measure_one_input,
            decides="is taken",
            margin=lambda seen: yes(not seen["is taken"] or seen["two come out apart by"] < 1e-9),
            rule="in training a single example is refused, or every one comes out the same",
            knobs=ExampleAndBatchKnobs,
            control={"mode": "eval"},
            seeds=5,
            other_reading="with running statistics, at inference, it can",
        ),
        Claim(
            id="bn-noise-regularises",
            says="the noise of the batch in batch norm helps against overfitting",
            where=COST,
            kind="training",
            measure=measure_norm_noise,
            decides="dev better by",
            margin=lambda seen: seen["dev better by"],
            rule="with statistics of chunks of 32 the dev loss is lower than with those of all, all else alike",
            knobs=NormNoiseKnobs,
            control={"chunk": 0},
            seeds=5,
        ),
        Claim(
            id="other-norms-avoid-batch",
            says="layer, instance and group norm do not depend on the batch",
            where=COST,
            kind="draws",
            measure=measure_two_batches,
            decides="furthest apart",
            margin=lambda seen: 1e-6 - seen["furthest apart"],
            rule="with each of them the logits of an example are the same in two batches, to a millionth",
            knobs=RowNormKnobs,
            control={"norm": "batch"},
            seeds=8,
        ),
        Claim(
            id="running-statistics-for-inference",
            says="running means and deviations that are kept in training serve single examples afterwards",
            where=COST,
            kind="draws",
            measure=measure_running,
            decides="single example off by",
            margin=lambda seen: 0.25 - seen["single example off by"],
            rule="after 200 batches a single example comes out within a quarter of a deviation of what it should",
            knobs=RunningKnobs,
            control={"batches": 1},
            seeds=8,
        ),
        Claim(
            id="bn-folds-into-linear",
            says="after training batch norm folds into the linear layer: W γ/√(σ² + ε) and γ(b − μ)/√(σ² + ε) + β",
            where="notes §15.2",
            kind="draws",
            measure=measure_fold,
            decides="furthest apart",
            margin=lambda seen: 1e-9 - seen["furthest apart"],
            rule="one layer with these weights gives the same outputs as the two",
            knobs=FoldKnobs,
            control={"mode": "train"},
            seeds=8,
        ),
    ),
)
