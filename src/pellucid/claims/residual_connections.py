"""Residual connections: what adding the input of a block does to gradients, and to a block of zeros.

Both forms are pellucid's own, `plain` and `residual`: blocks of two linear layers with an activation in between. Where
gradients are compared, both have the same drawn weights, so that nothing but the way around the blocks tells them
apart. `scale` is the deviation of what a block computes, feat(X), for inputs of mean square 1: at 1 a plain stack
keeps its size. With the way around, sizes then grow by √(1 + scale²) for each block, forward and back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from torch import Tensor

    from pellucid.models.examples.rows import Deep

    Array = npt.NDArray[np.float64]

FORMS = ("plain", "residual")
WIDTH, ROWS = 64, 32  # of the stacks whose gradients are looked at


def build_deep_pair(width: int, depth: int, scale: float, seed: int, activation: str = "relu") -> dict[str, Deep]:
    """A plain and a residual network with the same drawn weights, in double precision."""
    import torch

    from pellucid.models.examples.configs import DeepConfig
    from pellucid.models.examples.rows import Plain, Residual
    from pellucid.training.rng import seed_torch

    config = DeepConfig((width,), (), width, width=width, depth=depth, activation=activation)
    with seed_torch(seed, 0, "weights"):
        plain, residual = Plain(config).double(), Residual(config).double()
    with torch.no_grad():
        for name, parameter in plain.blocks.named_parameters():
            if name.endswith("back.weight"):
                parameter.mul_(scale)
    residual.load_state_dict(plain.state_dict())
    return {"plain": plain, "residual": residual}


def draw_rows(seed: int, purpose: str, width: int = WIDTH, rows: int = ROWS) -> Tensor:
    import torch

    from pellucid.training.rng import torch_rng

    return torch.randn(rows, width, generator=torch_rng(seed, 0, purpose), dtype=torch.float64)


def root_mean(values: Tensor) -> float:
    """The root of the mean square."""
    return values.square().mean().sqrt().item()


class StackGradients(NamedTuple):
    """Of a stack of blocks: the gradient at the input of each and behind the last, and that by the skips alone."""

    gradients: list[Tensor]
    by_skips: Tensor


def run_back(model: Deep, seed: int, *, has_skips: bool) -> StackGradients:
    """A random gradient goes back from the last block to the first."""
    import torch

    x, above = draw_rows(seed, "rows"), draw_rows(seed, "gradient")
    streams = [x.requires_grad_()]
    for block in model.blocks:
        streams.append(model.combine(streams[-1], block(streams[-1])))
    gradients = list(torch.autograd.grad(streams[-1], streams, above))
    if not has_skips:
        return StackGradients(gradients, torch.zeros_like(above))
    bare = x
    for block in model.blocks:
        bare = model.combine(bare, block(bare).detach())
    (by_skips,) = torch.autograd.grad(bare, x, above)
    return StackGradients(gradients, by_skips)


@dataclass(frozen=True)
class StackScaleKnobs:
    scale: float = option(1.0, "Deviation of feat(X) at first, for inputs of 1.", minimum=0, maximum=10)
    depth: int = option(40, "Blocks of two layers.", minimum=1, maximum=200)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class FewBlocksKnobs(StackScaleKnobs):
    depth: int = option(8, "Blocks of two layers.", minimum=1, maximum=200)


def measure_stack_gradients(knobs: StackScaleKnobs) -> Numbers:
    """What the first block gets of a gradient behind the last, with and without skips; how straight its log is."""
    import numpy as np

    found: dict[str, float] = {}
    for form, model in build_deep_pair(WIDTH, knobs.depth, knobs.scale, knobs.seed).items():
        gradients, by_skips = run_back(model, knobs.seed, has_skips=form == "residual")
        sizes = [root_mean(gradient) for gradient in gradients]
        found[f"left, {form}"] = sizes[0] / sizes[-1]
        if form == "plain":
            logs, blocks = np.log([max(size, 1e-300) for size in sizes]), np.arange(len(sizes))
            found["straightness"] = float(np.corrcoef(blocks, logs)[0, 1] ** 2) if np.ptp(logs) > 0 else 0.0
        else:
            found["changed by"] = root_mean(gradients[0] - gradients[-1]) / sizes[-1]
            found["changed by, on the skips alone"] = root_mean(by_skips - gradients[-1]) / sizes[-1]
    return found


def run_back_by_hand(knobs: StackScaleKnobs) -> Numbers:
    """The same by the formulas of both passes, in NumPy."""
    found: dict[str, float] = {}
    for form, model in build_deep_pair(WIDTH, knobs.depth, knobs.scale, knobs.seed).items():
        skip = float(form == "residual")
        x, above = (draw_rows(knobs.seed, purpose).numpy() for purpose in ("rows", "gradient"))
        weights = [_matrices(block) for block in model.blocks]
        passed = []
        for first, second in weights:
            z = x @ first.T
            passed.append(z > 0)
            x = skip * x + (z * passed[-1]) @ second.T
        back = above
        for (first, second), is_open in zip(reversed(weights), reversed(passed), strict=True):
            back = skip * back + ((back @ second) * is_open) @ first
        found[f"left, {form}"] = float((back**2).mean() ** 0.5 / (above**2).mean() ** 0.5)
    found["changed by"] = float(((back - above) ** 2).mean() ** 0.5 / (above**2).mean() ** 0.5)
    return found


def _matrices(block: Any) -> tuple[Array, Array]:
    """The two matrices of a block; its biases begin at zero."""
    return block.hidden.linear.weight.detach().numpy(), block.back.weight.detach().numpy()


def is_exponential_fall(seen: Numbers) -> float:
    return min(-2 - math.log10(seen["left, plain"] + 1e-300), seen["straightness"] - 0.9)


def nearer_with_skips(seen: Numbers) -> float:
    return abs(math.log10(seen["left, plain"])) - abs(math.log10(seen["left, residual"]))


# One block, and its derivative


@dataclass(frozen=True)
class BlockJacobianKnobs:
    form: str = option("residual", "X + feat(X), or feat(X) alone", choices=FORMS)
    scale: float = option(1.0, "Deviation of feat(X) at first, for inputs of 1.", minimum=0, maximum=10)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_block_jacobian(knobs: BlockJacobianKnobs) -> Numbers:
    """dF/dX of one block beside dfeat/dX, by torch; and its singular values, the factors on gradients."""
    import torch

    model = build_deep_pair(WIDTH, 1, knobs.scale, knobs.seed)[knobs.form]
    x = draw_rows(knobs.seed, "rows", rows=1)[0]
    block = model.blocks[0]
    whole, feature = (torch.func.jacrev(one)(x) for one in (lambda x: model.combine(x, block(x)), block))
    factors = torch.linalg.svdvals(whole)
    above = draw_rows(knobs.seed, "gradient", rows=1000)
    return {
        "furthest from 1 + dfeat/dX": (whole - feature - torch.eye(WIDTH, dtype=whole.dtype)).abs().max().item(),
        "sum of the diagonal": whole.trace().item(),
        "smallest factor": factors.min().item(),
        "factors below 1": (factors < 1 - 1e-9).double().mean().item(),
        "mean factor": ((above @ whole).norm(dim=1) / above.norm(dim=1)).mean().item(),
    }


def block_jacobian_by_hand(knobs: BlockJacobianKnobs) -> Numbers:
    """The diagonal by differences, and the smallest factor by the eigenvalues of JᵀJ of the formula."""
    import numpy as np

    model = build_deep_pair(WIDTH, 1, knobs.scale, knobs.seed)[knobs.form]
    x = draw_rows(knobs.seed, "rows", rows=1)[0].numpy()
    first, second = _matrices(model.blocks[0])
    skip, nudge = float(knobs.form == "residual"), 1e-6

    def run(x: Array) -> Array:
        out: Array = skip * x + second @ np.maximum(first @ x, 0)
        return out

    steps = nudge * np.eye(WIDTH)
    trace = sum([(run(x + step)[i] - run(x - step)[i]) / (2 * nudge) for i, step in enumerate(steps)])
    jacobian = skip * np.eye(WIDTH) + second @ ((first @ x > 0)[:, None] * first)
    smallest = max(0.0, float(np.linalg.eigvalsh(jacobian.T @ jacobian)[0])) ** 0.5
    return {"sum of the diagonal": float(trace), "smallest factor": smallest}


@dataclass(frozen=True)
class FeatureSlopeKnobs:
    slope: float = option(0.0, "The derivative of feat(x) toward x.", minimum=-10, maximum=10)

    def __post_init__(self) -> None:
        check_options(self)


def measure_baseline(knobs: FeatureSlopeKnobs) -> Numbers:
    """The gradient behind x + slope · x, by pellucid's engine, where 1 came from above."""
    from pellucid.autograd.value import Value

    x = Value(1.5)
    (x + knobs.slope * x).backward()
    return {"gradient": abs(x.grad)}


@dataclass(frozen=True)
class ZeroBlockKnobs:
    form: str = option("residual", "X + feat(X), or feat(X) alone", choices=FORMS)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def _zero_a_block(knobs: ZeroBlockKnobs) -> tuple[Deep, Tensor, Tensor]:
    """A network of six blocks, of which the third has nothing but zeros; some rows, and no codes."""
    import torch
    from torch import nn

    model = build_deep_pair(WIDTH, 6, 0.5, knobs.seed)[knobs.form]
    for parameter in model.blocks[2].parameters():
        nn.init.zeros_(parameter)
    return model, draw_rows(knobs.seed, "rows"), torch.zeros(ROWS, 0, dtype=torch.long)


def measure_zeroed_block(knobs: ZeroBlockKnobs) -> Numbers:
    """What a block of zeros hands on beside what it was given, and the gradient that its two matrices get."""
    model, rows, codes = _zero_a_block(knobs)
    scores = model(rows, codes)
    scores.square().sum().backward()
    stream = model.stem(rows)
    for block in list(model.blocks)[:2]:
        stream = model.combine(stream, block(stream))
    handed_on = model.combine(stream, model.blocks[2](stream))
    zeroed, other = (
        max([p.grad.abs().max().item() for p in block.parameters() if p.grad is not None and p.dim() == 2])
        for block in (model.blocks[2], model.blocks[3])
    )
    return {
        "changed by": root_mean(handed_on - stream) / root_mean(stream),
        "size of scores": root_mean(scores),
        "gradient of its matrices": zeroed,
        "gradient of the next block's": other,
    }


def drop_zeroed_block(knobs: ZeroBlockKnobs) -> Numbers:
    """The scores of a network of five blocks, from which the zeros were taken out."""
    from pellucid.models.examples.rows import Residual

    model, rows, codes = _zero_a_block(knobs)
    return {"size of scores": root_mean(model.drop_blocks([2])(rows, codes))} if isinstance(model, Residual) else {}


MODULE, SKIPS = "log Q11 C.3", "exam P2.3"

FAMILY = ClaimFamily(
    name="residual-connections",
    title="Residual connections",
    claims=(
        Claim(
            id="plain-depth-vanishes",
            says="in a deep network without residual connections a gradient shrinks exponentially",
            where=MODULE,
            kind="draws",
            measure=measure_stack_gradients,
            decides="left, plain",
            margin=is_exponential_fall,
            rule="over 40 blocks less than 1 % is left, and its logarithm is a line (r² above 0.9), for any scale",
            knobs=StackScaleKnobs,
            control={"scale": 0.5},
            search=Search("scale", 0.1, 3.0, is_log=True),
            second=run_back_by_hand,
            seeds=8,
            other_reading="it may; with weights that keep sizes it does not, and with larger ones it explodes",
        ),
        Claim(
            id="residual-derivative-one-plus",
            says="the derivative of a residual block X + feat(X) is 1 + dfeat/dX",
            where=MODULE,
            kind="proof",
            measure=measure_block_jacobian,
            decides="furthest from 1 + dfeat/dX",
            margin=lambda seen: 1e-9 - seen["furthest from 1 + dfeat/dX"],
            rule="in every one of 64 × 64 places it is that, where 1 is the identity matrix",
            knobs=BlockJacobianKnobs,
            control={"form": "plain"},
            second=block_jacobian_by_hand,
        ),
        Claim(
            id="residual-baseline-always-passes",
            says="whatever the layers do, the 1 in 1 + dfeat/dX lets a gradient of 1 pass",
            where=MODULE,
            kind="arithmetic",
            measure=measure_baseline,
            decides="gradient",
            margin=lambda seen: seen["gradient"] - 1 + 1e-12,
            rule="of a gradient of 1 at least 1 arrives, for slopes of the layers from −1.5 to 1.5",
            knobs=FeatureSlopeKnobs,
            control={"slope": -1.0},
            search=Search("slope", -1.5, 1.5, n_values=7),
            second=lambda knobs: {"gradient": abs(1 + knobs.slope)},
            other_reading="where the layers pass nothing, at a slope of 0, it does; at −1 they take all of it away",
        ),
        Claim(
            id="residual-gradients-at-least-one",
            says="I + ∂F/∂x makes sure that a gradient keeps at least the size that it came with",
            where="homework 1.4e.1",
            kind="draws",
            measure=measure_block_jacobian,
            decides="smallest factor",
            margin=lambda seen: seen["smallest factor"] - 1 + 1e-9,
            rule="no direction of a gradient comes out of a block with drawn weights shorter than it went in",
            knobs=BlockJacobianKnobs,
            control={"scale": 0.0},
            search=Search("scale", 0.01, 3.0, n_values=5, is_log=True),
            second=block_jacobian_by_hand,
            tolerance=1e-5,
            seeds=8,
            other_reading="on average over directions it does",
        ),
        Claim(
            id="additions-do-not-affect-gradients-residual",
            says="as additions do not change gradients, a gradient comes through residual blocks as it was",
            where="notes §17.3",
            kind="draws",
            measure=measure_stack_gradients,
            decides="changed by",
            margin=lambda seen: 0.01 - seen["changed by"],
            rule="before eight residual blocks it is within 1 % of what it is behind them",
            knobs=FewBlocksKnobs,
            control={"scale": 0.0},
            second=run_back_by_hand,
            seeds=8,
            other_reading="the part of it that goes by the skips alone does; the layers add theirs",
        ),
        Claim(
            id="skip-helps-gradient-flow",
            surprise="with weights that keep sizes it is the skips that make gradients explode",
            says="skip connections help gradients to flow",
            where=SKIPS,
            kind="draws",
            measure=measure_stack_gradients,
            decides="left, residual",
            margin=nearer_with_skips,
            rule="with skips what is left of a gradient after 40 blocks is nearer to 1, as a factor, for any scale",
            knobs=StackScaleKnobs,
            control={"scale": 0.5},
            search=Search("scale", 0.1, 3.0, is_log=True),
            second=run_back_by_hand,
            seeds=8,
            other_reading="more of it arrives always; with weights that keep sizes without skips it grows with them, "
            "and both are as far off where s⁴ + s² = 1, at 0.786",
        ),
        Claim(
            id="zero-weights-skip-block",
            says="a residual block whose weights go to zero is skipped",
            where=MODULE,
            kind="proof",
            measure=measure_zeroed_block,
            decides="changed by",
            margin=lambda seen: 1e-12 - seen["changed by"],
            rule="a block of zeros hands on what it was given, and the scores are those of the network without it",
            knobs=ZeroBlockKnobs,
            control={"form": "plain"},
            second=drop_zeroed_block,
            other_reading="that depth adjusts itself: at zero its matrices get no gradient, and it stays there",
        ),
    ),
)
