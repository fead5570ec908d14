"""What each rung of the ladder that learns is said to be, shown by another way to the same numbers."""

import math
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from pellucid.data.prepare.tokens import Corpus
from pellucid.errors import PellucidError
from pellucid.layers.norms import NORMS, BatchNorm
from pellucid.models.counting.fitting import count_loss
from pellucid.models.counting.ngram import NGram, NGramConfig
from pellucid.models.counting.simple_models import Bigram, BigramConfig
from pellucid.models.sequences.configs import NeuralNGramConfig, RecurrentConfig, WavenetConfig, WindowMLPConfig
from pellucid.models.sequences.on_counting import OnCounting, with_own_scores
from pellucid.models.sequences.recurrent import GRU, LSTM, RNN
from pellucid.models.sequences.windows import NeuralNGram, Wavenet, WindowMLP

pytestmark = pytest.mark.usefixtures("one_thread")


def draw(vocab_size, *shape, seed=1):
    return torch.randint(0, vocab_size, shape, generator=torch.Generator().manual_seed(seed))


def windows(tokens, reach):
    """(batch, time) -> (batch, time, reach), one by one in Python; before the beginning stands 0."""
    rows = []
    for row in tokens.tolist():
        whole = [0] * (reach - 1) + row
        rows.append([whole[time : time + reach] for time in range(len(row))])
    return torch.tensor(rows)


def randomised(model, seed=0):
    """Every parameter and every statistic away from where it began."""
    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3, generator=draws)
        for module in model.modules():
            if isinstance(module, BatchNorm):
                module.running_mean.normal_(generator=draws)
                module.running_variance.uniform_(0.5, 2, generator=draws)
    return model


@pytest.mark.parametrize("order", [2, 3, 4])
def test_a_neural_ngram_is_one_hot_times_its_table(order):
    model = randomised(NeuralNGram(NeuralNGramConfig(vocab_size=7, n=order)).double())
    tokens = draw(7, 3, 9)
    one_hot = functional.one_hot(windows(tokens, order - 1), 7).double()  # (batch, time, n - 1, vocab)
    assert torch.allclose(model(tokens), torch.einsum("btiv,ivw->btw", one_hot, model.table), atol=1e-12)


def test_a_neural_bigram_learns_what_counting_finds():
    # Every pair occurs, so that the best table is finite: the logarithms of the counts.
    chain = np.random.default_rng(0).dirichlet(np.full(6, 0.8), size=6)
    state, tokens = np.random.default_rng(1), [0]
    for _ in range(3000):
        tokens.append(int(state.choice(6, p=0.9 * chain[tokens[-1]] + 0.1 / 6)))
    stream = SimpleNamespace(tokens=np.array(tokens, np.uint8), has_boundary=False, closing=0)
    counted = Bigram.fit(stream, BigramConfig(6))
    best = count_loss(counted, stream).nats

    model = NeuralNGram(NeuralNGramConfig(6, n=2)).double()
    whole = torch.tensor(tokens)[None]

    def current():
        return functional.cross_entropy(model(whole[:, :-1])[0], whole[0, 1:])

    assert current().item() == pytest.approx(math.log(6), abs=1e-12)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=100, line_search_fn="strong_wolfe")

    def again():
        optimizer.zero_grad()
        found = current()
        found.backward()
        return found

    optimizer.step(again)
    assert best - 1e-9 <= current().item() < best + 1e-6
    learned = torch.log_softmax(model.table[0].detach(), dim=-1).numpy()
    assert learned == pytest.approx(counted.log_table, abs=0.02)


def test_the_classic_mlp_has_as_many_parameters_as_the_lecture_says():
    assert WindowMLP(WindowMLPConfig(vocab_size=27, context=3, embedding=10, hidden=200)).n_parameters == 11_897
    assert WindowMLPConfig.of_size("tiny", 27, 8) == WindowMLPConfig(vocab_size=27, context=3, embedding=10, hidden=200)
    # In words: |V| k, then context k hidden + hidden, then hidden |V| + |V|.
    assert 27 * 10 + 3 * 10 * 200 + 200 + 200 * 27 + 27 == 11_897


def test_the_mlp_is_the_formula_of_the_paper():
    config = WindowMLPConfig(vocab_size=7, context=3, embedding=4, hidden=5)
    model = randomised(WindowMLP(config).double())
    tokens = draw(7, 2, 6)
    c, first, last = model.embedding.weight, model.layers[0].linear, model.head
    joined = c[windows(tokens, 3)].reshape(2, 6, 12)
    wanted = torch.tanh(joined @ first.weight.T + first.bias) @ last.weight.T + last.bias
    assert torch.allclose(model(tokens), wanted, atol=1e-12)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("function", ["tanh", "relu", "leaky_relu", "gelu", "sigmoid"])
def test_pre_activations_begin_with_variance_one(function, norm):
    torch.manual_seed(0)
    model = WindowMLP(WindowMLPConfig(27, context=4, embedding=32, hidden=256, depth=4, activation=function, norm=norm))
    seen = []
    for layer in model.layers:
        layer.activation.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    model(draw(27, 64, 8))
    # What chance does to 256 units and 27 embeddings: over 20 seeds all lay between 0.70 and 1.36.
    assert [found.square().mean().item() for found in seen] == pytest.approx([1.0] * 4, abs=0.5)


def test_batch_norm_makes_the_bias_before_it_superfluous():
    assert WindowMLP(WindowMLPConfig(27, norm="batch")).layers[0].linear.bias is None
    assert all(
        WindowMLP(WindowMLPConfig(27, norm=norm)).layers[0].linear.bias is not None for norm in NORMS if norm != "batch"
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    "build",
    [
        lambda: WindowMLP(WindowMLPConfig(7, hidden=16, depth=3, norm="batch")),
        lambda: Wavenet(WavenetConfig(7, hidden=16)),
    ],
    ids=["mlp", "wavenet"],
)
def test_folded_models_give_the_same_scores_without_norms(build, dtype):
    model = randomised(build().to(dtype)).eval()
    ready = model.for_inference()
    assert not [module for module in ready.modules() if isinstance(module, BatchNorm)]
    assert [module for module in model.modules() if isinstance(module, BatchNorm)]
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    for tokens in (draw(7, 5, 9), draw(7, 1, 1)):
        assert torch.allclose(ready(tokens), model(tokens), atol=tolerance, rtol=0)


class FlattenConsecutive(nn.Module):
    """As in the makemore lecture."""

    def forward(self, x):
        batch, time, features = x.shape
        return x.view(batch, time // 2, 2 * features).squeeze(1)


def test_the_wavenet_is_the_lectures_on_every_window():
    model = randomised(Wavenet(WavenetConfig(vocab_size=7, context=8, embedding=4, hidden=6)).double()).eval()
    lecture = nn.Sequential()
    for layer in model.layers:
        norm = nn.BatchNorm1d(6, dtype=torch.float64)
        norm.weight, norm.bias = layer.norm.gain, layer.norm.bias
        norm.running_mean, norm.running_var = layer.norm.running_mean, layer.norm.running_variance
        lecture.extend([FlattenConsecutive(), layer.linear, OverFeatures(norm), nn.Tanh()])
    lecture.append(model.head)
    lecture.eval()
    tokens = draw(7, 3, 12)
    wanted = lecture(model.embedding(windows(tokens, 8).flatten(0, 1))).reshape(3, 12, 7)
    assert torch.allclose(model(tokens), wanted, atol=1e-12)
    assert torch.allclose(model.of_windows(windows(tokens, 8).flatten(0, 1)).reshape(3, 12, 7), wanted, atol=1e-12)


class OverFeatures(nn.Module):
    """torch's batch norm for features that stand last."""

    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, x):
        return self.norm(x.flatten(0, -2)).view_as(x)


def test_the_wavenet_has_the_lectures_parameters():
    # In words: |V| k, then a linear layer without bias for each doubling, gain and bias of its norm, and the head.
    assert Wavenet(WavenetConfig(27)).n_parameters == 76_579
    assert 27 * 24 + 48 * 128 + 2 * 256 * 128 + 3 * 256 + 128 * 27 + 27 == 76_579


def test_a_context_that_is_no_power_of_two_brings_the_nearest():
    with pytest.raises(PellucidError, match=r"a context of 7 tokens cannot be halved .* nearest that can is 8"):
        WavenetConfig(27, context=7)
    assert [WavenetConfig.of_size("medium", 27, context).context for context in (1, 3, 7, 8, 100)] == [2, 2, 4, 8, 8]


@pytest.mark.parametrize(
    ("model", "gates"),
    [(RNN(RecurrentConfig(7, 6)), 1), (GRU(RecurrentConfig(7, 6)), 3), (LSTM(RecurrentConfig(7, 6)), 4)],
    ids=["rnn", "gru", "lstm"],
)
def test_recurrent_parameters_follow_the_formula(model, gates):
    assert model.n_parameters == 7 * 6 + gates * (2 * 6 * 6 + 2 * 6) + 6 * 7 + 7


def test_recurrent_formulas():
    """Two tokens by hand, in float64."""
    torch.manual_seed(0)
    tokens = torch.tensor([[3, 5]])
    for model in (
        RNN(RecurrentConfig(7, 6)).double(),
        GRU(RecurrentConfig(7, 6)).double(),
        LSTM(RecurrentConfig(7, 6)).double(),
    ):
        w, u = model.cell.weight_ih_l0, model.cell.weight_hh_l0
        b, d = model.cell.bias_ih_l0, model.cell.bias_hh_l0
        h = c = torch.zeros(6, dtype=torch.float64)
        for token in (3, 5):
            x = model.embedding.weight[token]
            if isinstance(model, RNN):
                h = torch.tanh(w @ x + b + u @ h + d)
            elif isinstance(model, GRU):
                (wr, wz, wn), (ur, uz, un) = (w @ x + b).chunk(3), (u @ h + d).chunk(3)
                r, z = torch.sigmoid(wr + ur), torch.sigmoid(wz + uz)
                h = z * h + (1 - z) * torch.tanh(wn + r * un)
            else:
                i, f, g, o = (w @ x + b + u @ h + d).chunk(4)
                c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
                h = torch.sigmoid(o) * torch.tanh(c)
        assert torch.allclose(model(tokens)[0, -1], model.head.weight @ h + model.head.bias, atol=1e-12)


def test_the_forget_gate_begins_open():
    cell = LSTM(RecurrentConfig(7, 6, depth=2)).cell
    assert cell.bias_ih_l1[6:12].tolist() == [1.0] * 6


@pytest.mark.parametrize("depth", [1, 2])
def test_dropout_drops_in_training_alone(depth):
    model, tokens = GRU(RecurrentConfig(7, 6, depth=depth, dropout=0.5)), draw(7, 2, 5)
    assert not torch.equal(model(tokens), model(tokens))
    assert torch.equal(model.eval()(tokens), model(tokens))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: WindowMLPConfig(27, hidden=0), r"hidden is 0\. The nearest that can be is 1\."),
        (lambda: WindowMLPConfig(27, hidden=100, norm="group"), r"cannot be shared equally by 8 groups\. .* is 96\."),
        (lambda: WindowMLPConfig(27, hidden=3, norm="instance"), r"cannot be shared equally by 8 channels\. .* is 8\."),
        (lambda: WindowMLPConfig(27, norm="bach"), r"there is no norm called 'bach'\. Perhaps you meant batch\."),
        (lambda: WindowMLPConfig(27, activation="rely"), r"no activation called 'rely'\. Perhaps you meant relu\."),
        (lambda: WindowMLPConfig(27, depth=1.5), r"depth is 1\.5, which is no whole number"),
        (lambda: NeuralNGramConfig(27, n=1), r"n is 1\. The nearest that can be is 2\."),
        (lambda: NeuralNGramConfig(20_000, n=3), r"800,000,000 entries\. Use mlp"),
        (lambda: RecurrentConfig(27, dropout=1.0), r"dropout is 1\. Choose a number from 0 to 0\.9999"),
        (lambda: RecurrentConfig(27, dropout=float("nan")), r"dropout is nan\. Choose a number"),
    ],
)
def test_what_cannot_be_is_refused_with_the_nearest_that_can(make, said):
    with pytest.raises(PellucidError, match=said):
        make()


def test_an_unknown_network_is_refused_before_torch_is_loaded():
    code = (
        "import sys; from pellucid.models.catalogue import find_network\n"
        "try: find_network('mpl', 'list')\n"
        "except Exception as error: print(error, 'torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert run.stdout == "there is no network called 'mpl'. Perhaps you meant mlp. False\n"


def test_a_neural_ngram_starts_from_zeros_or_from_the_normal_distribution():
    zeros = NeuralNGram(NeuralNGramConfig(27, n=3))
    assert not zeros.table.any()
    assert zeros.expected_first_loss is None
    torch.manual_seed(0)
    normal = NeuralNGram(NeuralNGramConfig(27, n=3, init="normal"))
    # 1,458 numbers: their mean and deviation are within 5 standard errors of 0 and 1.
    assert abs(normal.table.mean()) < 5 / 1458**0.5
    assert abs(normal.table.std() - 1) < 5 / (2 * 1458) ** 0.5
    tokens = torch.randint(27, (400, 50))
    first = torch.nn.functional.cross_entropy(normal(tokens).flatten(0, 1), torch.randint(27, (400 * 50,)))
    # One table, and not the mean over all of them: its rows scatter.
    assert first.item() == pytest.approx(normal.expected_first_loss, abs=0.15)


def test_batch_norm_on_the_scores_is_torchs():
    """BN ∘ L₂ ∘ tanh ∘ BN ∘ L₁ ∘ C[X], put together from torch's own layers."""
    config = WindowMLPConfig(27, norm="batch", logit_norm="batch")
    torch.manual_seed(3)
    model = WindowMLP(config).double()
    # C, W₁ without bias, BN, W₂ without bias, BN.
    assert model.n_parameters == 27 * 10 + 30 * 200 + 2 * 200 + 200 * 27 + 2 * 27
    hidden, head = model.layers[0], model.head
    assert hidden.linear.bias is None
    assert head.linear.bias is None
    norms = [torch.nn.BatchNorm1d(n, dtype=torch.double) for n in (200, 27)]
    with torch.no_grad():
        for ours, theirs in zip((hidden.norm, head.norm), norms, strict=True):
            theirs.weight.copy_(ours.gain)
            theirs.bias.copy_(ours.bias)

    def by_torch(tokens):
        windows = torch.nn.functional.pad(tokens, (2, 0)).unfold(1, 3, 1)  # (batch, time, 3)
        x = model.embedding(windows).flatten(0, 1).flatten(1)
        inside = torch.tanh(norms[0](x @ hidden.linear.weight.T))
        return norms[1](inside @ head.linear.weight.T).view(*tokens.shape, 27)

    for _ in range(5):
        tokens = torch.randint(27, (8, 6))
        scores = model(tokens)
        assert torch.allclose(scores, by_torch(tokens), rtol=0, atol=1e-10)
    # As unsure as without the norm, and the same function when both norms are folded away.
    first = torch.nn.functional.cross_entropy(scores.flatten(0, 1), torch.randint(27, (48,)))
    assert first.item() == pytest.approx(math.log(27), abs=0.05)
    model.eval()
    for norm in norms:
        norm.eval()
    folded = model.for_inference()
    assert not any(isinstance(part, BatchNorm) for part in folded.modules())
    assert torch.allclose(folded(tokens), by_torch(tokens), rtol=0, atol=1e-10)


def test_on_counting_scores_with_a_norm_begin_at_nothing_and_learn():
    counts = NGram.fit(Corpus(np.array([0, 1, 2, 0, 2, 1, 0]), has_boundary=True), NGramConfig(3, order=2))
    config = WindowMLPConfig(3, hidden=8, norm="batch", logit_norm="batch")
    model = OnCounting(WindowMLP(with_own_scores(config)), counts)
    model.start_at_counting()
    tokens = torch.tensor([[0, 1, 2], [0, 2, 1]])
    parts = model.predict(tokens)
    assert torch.equal(parts.logits, parts.counted)
    torch.nn.functional.cross_entropy(parts.logits.flatten(0, 1), torch.tensor([1, 2, 0, 2, 1, 0])).backward()
    assert model.network.head.norm.gain.grad.abs().sum() > 0  # were the linear layer 0 too, nothing would ever move
