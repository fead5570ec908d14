"""Networks that look at the last few tokens through a window: neural n-gram, MLP and wavenet.

Before the beginning they see token 0.

For a list that is the boundary, so that the windows of "emma" are ···, ··e, ·em, emm and mma.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.layers.feed_forward import Hidden, NormalisedHead, gain, output_head
from pellucid.models.contracts import SequenceModel
from pellucid.models.rows_apart import StackedRows
from pellucid.models.sequences.configs import NeuralNGramConfig, WavenetConfig, WindowMLPConfig


class WindowModel(SequenceModel):
    """State: the window itself, (batch, reach), the oldest token first."""

    reach: int  # tokens in a window

    @abstractmethod
    def of_windows(self, windows: Tensor) -> Tensor:
        """windows: (batch, reach) -> (batch, vocab), the scores of what comes after each."""

    def begin(self, batch: int) -> Tensor:
        device = next(self.parameters()).device
        return torch.zeros((batch, self.reach), dtype=torch.long, device=device)

    def advance(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return self.read(tokens[:, None], state)

    def read(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        # Only the last window matters, however much is read at once.
        window = torch.cat([state, tokens], dim=1)[:, -self.reach :]
        return self.of_windows(window), window

    def keep(self, state: Tensor, rows: Tensor) -> Tensor:
        return state[rows]

    def rows_apart(self) -> StackedRows:
        return StackedRows(self, parts=lambda state: [state], join=lambda parts: parts[0])


def pad_start(tokens: Tensor, before: int) -> Tensor:
    """tokens: (batch, time) -> (batch, before + time), with as many 0 before the first as a window there looks back.

    >>> pad_start(torch.tensor([[5, 6]]), before=2)
    tensor([[0, 0, 5, 6]])
    """
    return functional.pad(tokens, (before, 0))


def slide_windows(values: Tensor, reach: int) -> Tensor:
    """values: (batch, reach - 1 + time, features) -> (batch, time, reach * features), one window for each position.

    Side by side, the oldest first. Each value was computed once and is only copied, not looked up again.

    >>> slide_windows(torch.tensor([[[1.0], [2.0], [3.0]]]), reach=2)
    tensor([[[1., 2.],
             [2., 3.]]])
    """
    time = values.shape[1] - reach + 1
    return torch.cat([values[:, first : first + time] for first in range(reach)], dim=-1)


def normal_start_loss(vocab_size: int, deviation: float) -> float:
    """The mean loss where all scores are drawn from N(0, deviation²), whatever the next token is: E[log Σ exp z].

    By log S = ∫ (exp(-eᵘ) - exp(-S eᵘ)) du, whose expectation needs only that of one exp(-e^(u + z)).

    >>> round(normal_start_loss(27, 0.0), 4), round(normal_start_loss(27, 1.0), 4)
    (3.2958, 3.7663)
    """
    # The trapezoidal rule is exact to many digits for such bells and steps.
    u = torch.linspace(-60.0, 12.0, 1441, dtype=torch.float64)
    z = torch.linspace(-10.0, 10.0, 2001, dtype=torch.float64)
    density = torch.exp(-z.square() / 2)
    one = torch.exp(-torch.exp(u[:, None] + deviation * z)) @ (density / density.sum())
    return float(torch.trapezoid(torch.exp(-u.exp()) - one**vocab_size, u))


class NeuralNGram(WindowModel):
    """scores = Σᵢ W[i, xᵢ], W of shape (n - 1, |V|, |V|): place in the window, the token there, the next token.

    Neural n-gram: each of the n - 1 last tokens looks up a row of scores for what comes next, and the rows are added.
    For n = 2 it is the bigram once more, as a table that learns: its scores become logarithms of counts, but for a
    constant of each row. For n > 2 it has (n - 1) |V|² numbers where counting has |V|ⁿ; it cannot tell which tokens
    came together.

    It is the product of one-hot vectors with W, without the multiplications by 0. The table begins with zeros: the loss
    is convex in it, so that there is no symmetry to break, and every token is as likely as any at first. By choice it
    begins with numbers from N(0, 1), and so with opinions that nothing has taught it.

    >>> model = NeuralNGram(NeuralNGramConfig(vocab_size=5, n=3))
    >>> model(torch.tensor([[0, 1, 2]])).shape
    torch.Size([1, 3, 5])
    """

    def __init__(self, config: NeuralNGramConfig) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = config.vocab_size
        self.reach = config.n - 1
        self.table = nn.Parameter(torch.zeros(self.reach, config.vocab_size, config.vocab_size))
        if config.init == "normal":
            nn.init.normal_(self.table)

    @property
    def expected_first_loss(self) -> float | None:
        return normal_start_loss(self.vocab_size, self.reach**0.5) if self.config.init == "normal" else None

    def forward(self, tokens: Tensor) -> Tensor:
        time = tokens.shape[1]
        seen = pad_start(tokens, self.reach - 1)
        return self._sum([seen[:, place : place + time] for place in range(self.reach)])

    def of_windows(self, windows: Tensor) -> Tensor:
        return self._sum(list(windows.unbind(1)))

    def _sum(self, places: list[Tensor]) -> Tensor:
        scores = functional.embedding(places[0], self.table[0])
        for place in range(1, self.reach):
            scores = scores + functional.embedding(places[place], self.table[place])
        return scores


class WindowMLP(WindowModel):
    """Embedding C of shape (|V|, embedding), a window of `context` of its rows, hidden layers, head.

    MLP: the last tokens become short learned vectors, and a small network reads them side by side. Bengio, Ducharme,
    Vincent and Jauvin 2003, "A Neural Probabilistic Language Model": scores = L₂ ∘ f ∘ L₁ ∘ C[X]. What was learned
    about one token serves those with a similar vector, which no table of counts can do.

    Weights are drawn so that every pre-activation begins with variance 1: N(0, 1 / fan_in) over the embeddings, which
    have variance 1 themselves, and N(0, gain² / fan_in) over activations.

    By `norm="batch"` and `logit_norm="batch"` it is BN ∘ L₂ ∘ f ∘ BN ∘ L₁ ∘ C[X].

    With batch norm, statistics are over all positions of a training batch, those that pad short rows included: what
    pads is token 0, their windows are "the item has ended", and the running averages are over the same mixture.

    >>> import torch
    >>> model = WindowMLP(WindowMLPConfig(vocab_size=27))
    >>> model.n_parameters
    11897
    >>> model(torch.tensor([[0, 5, 13, 13, 1]])).shape
    torch.Size([1, 5, 27])
    """

    def __init__(self, config: WindowMLPConfig) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = config.vocab_size
        self.reach = config.context
        self.embedding = nn.Embedding(config.vocab_size, config.embedding)
        factor, kind = gain(config.activation), (config.activation, config.norm, config.groups)
        self.layers = nn.Sequential(Hidden(config.context * config.embedding, config.hidden, 1.0, *kind))
        for _ in range(config.depth - 1):
            self.layers.append(Hidden(config.hidden, config.hidden, factor, *kind))
        make_head = NormalisedHead if config.logit_norm == "batch" else output_head
        self.head = make_head(config.hidden, config.vocab_size, factor)

    def forward(self, tokens: Tensor) -> Tensor:
        vectors = self.embedding(pad_start(tokens, self.reach - 1))
        scores: Tensor = self.head(self.layers(slide_windows(vectors, self.reach)))
        return scores

    def of_windows(self, windows: Tensor) -> Tensor:
        scores: Tensor = self.head(self.layers(self.embedding(windows).flatten(1)))
        return scores


class Wavenet(WindowModel):
    """Embedding, one hidden layer (batch norm, tanh) for each doubling of the window, head.

    Wavenet-like: the window is fused pair by pair, as a tree, so that nothing is squeezed together all at once. After
    van den Oord et al. 2016, "WaveNet", in the plain form of the makemore lectures: two tokens become one vector, two
    of those the next, until one is left for the whole window.

    The windows of neighbouring positions share most of their pairs, so `forward` does not build them: layer l fuses
    what ends at t - 2ˡ with what ends at t, for every t at once, which is a convolution dilated by 2ˡ. One window alone
    (`of_windows`) is fused as the tree that it is. In training the statistics of batch norm are over all positions of
    a layer, each counted once, those before the beginning and those that pad short rows included.

    >>> model = Wavenet(WavenetConfig(vocab_size=27))
    >>> model.n_parameters
    76579
    >>> model(torch.tensor([[0, 5, 13, 13, 1]])).shape
    torch.Size([1, 5, 27])
    """

    def __init__(self, config: WavenetConfig) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = config.vocab_size
        self.reach = config.context
        self.embedding = nn.Embedding(config.vocab_size, config.embedding)
        self.layers = nn.ModuleList([Hidden(2 * config.embedding, config.hidden, 1.0, norm="batch")])
        for _ in range(config.depth - 1):
            self.layers.append(Hidden(2 * config.hidden, config.hidden, gain("tanh"), norm="batch"))
        self.head = output_head(config.hidden, config.vocab_size, gain("tanh"))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(pad_start(tokens, self.reach - 1))
        for doubling, layer in enumerate(self.layers):
            back = 2**doubling
            x = layer(torch.cat([x[:, :-back], x[:, back:]], dim=-1))
        scores: Tensor = self.head(x)
        return scores

    def of_windows(self, windows: Tensor) -> Tensor:
        x = self.embedding(windows)
        for layer in self.layers:
            x = layer(x.reshape(x.shape[0], x.shape[1] // 2, -1))
        scores: Tensor = self.head(x[:, 0])
        return scores
