"""The MLP of Bengio: the shapes of its matrices and biases, and its loss beside that of counting.

logits = tanh(C[X] W1 + b1) W2 + b2, with a window of n − 1 tokens X and examples as rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search, yes
from pellucid.claims.letter_pairs import DATA
from pellucid.claims.neural_ngrams import count_contexts, count_with_model
from pellucid.claims.sizes_and_latency import one_thread
from pellucid.lessons.lesson import seed_knob, train_by_adamw
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class FirstMatrixKnobs:
    context: int = option(3, "Tokens of the window, n − 1.", minimum=1, maximum=64)
    embedding: int = option(10, "Numbers k of a token's vector.", minimum=1, maximum=1024)
    hidden: int = option(200, "Hidden units.", minimum=1, maximum=8192)

    def __post_init__(self) -> None:
        check_options(self)


def measure_first_matrix(knobs: FirstMatrixKnobs) -> Numbers:
    """The vectors of a window side by side are what the first matrix is multiplied with."""
    import torch

    windows = torch.zeros(4, knobs.context, dtype=torch.int64)
    embedded = torch.zeros(27, knobs.embedding)[windows].flatten(1)  # (windows, context · embedding)
    return {"rows of W1": float(embedded.shape[1]), "k": float(knobs.embedding), "columns": float(knobs.hidden)}


def read_first_matrix(knobs: FirstMatrixKnobs) -> Numbers:
    """Of our own MLP, whose layers have their matrix transposed."""
    from pellucid.models.sequences.configs import WindowMLPConfig
    from pellucid.models.sequences.windows import WindowMLP

    model = WindowMLP(WindowMLPConfig(27, knobs.context, knobs.embedding, knobs.hidden))
    rows, columns = next(one for name, one in model.named_parameters() if name.startswith("layers.0")).T.shape
    return {"rows of W1": float(rows), "columns": float(columns)}


@dataclass(frozen=True)
class BiasShapeKnobs:
    shape: str = option("column", "A bias of (units, 1), or of (1, units)", choices=("column", "row"))
    windows: int = option(32, "Windows m of a batch.", minimum=2, maximum=4096)
    hidden: int = option(200, "Hidden units.", minimum=2, maximum=4096)
    vocab: int = option(27, "Tokens of the vocabulary.", minimum=2, maximum=4096)

    def __post_init__(self) -> None:
        check_options(self)


def measure_bias_shapes(knobs: BiasShapeKnobs) -> Numbers:
    """Whether biases of this shape can be added to (m, hidden) and to (m, V), and leave the shape as it is."""
    import torch

    found = {}
    for name, units in (("hidden layer", knobs.hidden), ("output layer", knobs.vocab)):
        product = torch.zeros(knobs.windows, units)
        bias = torch.arange(units).float()
        bias = bias[:, None] if knobs.shape == "column" else bias[None]
        try:
            total = product + bias
            is_right = total.shape == product.shape and bool((total[0] == torch.arange(units)).all())
        except RuntimeError:
            is_right = False
        found[f"right in the {name}"] = float(is_right)
    return found


def add_by_numpy(knobs: BiasShapeKnobs) -> Numbers:
    """The same by NumPy, and by what each unit gets."""
    import numpy as np

    found = {}
    for name, units in (("hidden layer", knobs.hidden), ("output layer", knobs.vocab)):
        bias = np.arange(units).reshape((-1, 1) if knobs.shape == "column" else (1, -1))
        try:
            total = np.zeros((knobs.windows, units)) + bias
        except ValueError:
            total = np.zeros((0, 0))
        wanted = np.tile(np.arange(units), (knobs.windows, 1))
        found[f"right in the {name}"] = float(np.array_equal(total, wanted))
    return found


@dataclass(frozen=True)
class MLPOrCountsKnobs:
    data: str = option("names", DATA)
    n: int = option(2, "Order of the n-gram; the MLP reads n − 1 tokens.", minimum=2, maximum=4)
    steps: int = option(300, "Steps on all contexts at once.", minimum=1, maximum=10_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_mlp_or_counts(knobs: MLPOrCountsKnobs) -> Numbers:
    """The train loss of the MLP, from every context that occurs, and that of counting as many tokens back."""
    import torch

    from pellucid.models.sequences.configs import WindowMLPConfig
    from pellucid.models.sequences.windows import WindowMLP
    from pellucid.training.rng import seed_torch

    contexts, shares = count_contexts(knobs.data, knobs.n)
    with seed_torch(knobs.seed, 0, "weights"):
        model = WindowMLP(WindowMLPConfig(shares.shape[1], knobs.n - 1))
    wanted = shares.float()

    def loss_of(step: int) -> Tensor:
        return -(wanted * model.of_windows(contexts).log_softmax(-1)).sum()

    with one_thread():
        train_by_adamw(model, loss_of, 1e-2, knobs.steps)
        with torch.no_grad():
            learned = loss_of(0).item()
    rows = shares / shares.sum(-1, keepdim=True)
    counted = -(shares * torch.where(rows > 0, rows, 1.0).log()).sum().item()
    return {"above counting by": learned - counted, "loss of the MLP": learned, "loss of counting": counted}


BENGIO = "notes §12"

FAMILY = ClaimFamily(
    name="bengio-mlp",
    title="The MLP of Bengio",
    changed="three controls of this family and of fits-without-noise replaced ones that came out the same way; no "
    "record says which",
    claims=(
        Claim(
            id="bengio-W1-shape",
            says="in the MLP of Bengio the first matrix is (k, hidden), k being the width of a token's vector",
            where=BENGIO,
            kind="arithmetic",
            measure=measure_first_matrix,
            decides="rows of W1",
            margin=lambda seen: 0.5 - abs(seen["rows of W1"] - seen["k"]),
            rule="the vectors of a window, side by side, are k numbers, however many tokens it has",
            knobs=FirstMatrixKnobs,
            control={"context": 1},
            search=Search("context", 1, 8, n_values=8),
            second=read_first_matrix,
            other_reading="with n − 1 tokens it is ((n − 1) k, hidden)",
        ),
        Claim(
            id="bengio-bias-shape",
            says="the biases of its two layers are columns, (hidden, 1) and (V, 1)",
            where=BENGIO,
            kind="arithmetic",
            measure=measure_bias_shapes,
            decides="right in the hidden layer",
            margin=lambda seen: yes(seen["right in the hidden layer"] and seen["right in the output layer"]),
            rule="added to products of (m, hidden) and (m, V), each unit gets its own bias in both layers",
            knobs=BiasShapeKnobs,
            control={"shape": "row"},
            second=add_by_numpy,
            other_reading="where examples are columns, so that the matrices stand on the left, they are",
        ),
        Claim(
            id="mlp-gives-same-result-as-mle",
            says="the MLP and counting are two ways to the same loss",
            where=BENGIO,
            kind="training",
            measure=measure_mlp_or_counts,
            decides="above counting by",
            margin=lambda seen: 0.01 - abs(seen["above counting by"]),
            rule="after 300 steps on all contexts its train loss is within 0.01 nats of counting, for n of 2 to 4",
            knobs=MLPOrCountsKnobs,
            control={"n": 4},
            search=Search("n", 2, 4, n_values=3),
            second=count_with_model,
            seeds=5,
        ),
    ),
)
