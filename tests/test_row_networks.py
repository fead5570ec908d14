"""Networks for rows beside their twins: scikit-learn's regressions, principal axes, and formulas written out."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from pellucid.errors import PellucidError
from pellucid.layers.feed_forward import ACTIVATIONS
from pellucid.layers.losses import LOSSES, penalty
from pellucid.layers.norms import BatchNorm
from pellucid.models.catalogue import find_network, networks_for
from pellucid.models.examples.configs import AutoencoderConfig, DeepConfig, ExampleShape, LogisticConfig, RowMLPConfig
from pellucid.models.examples.rows import Autoencoder, Columns, Logistic, Plain, Residual, RowMLP, depth_of, one_hot_row

pytestmark = pytest.mark.usefixtures("one_thread")

NO_CODES = torch.zeros(64, 0, dtype=torch.long)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def minimised(model: nn.Module, loss: Callable[[], Tensor], rounds: int = 100) -> None:
    """The weights at which the loss is smallest, by L-BFGS."""
    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=rounds, tolerance_grad=1e-10, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def again() -> Tensor:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    optimizer.step(again)


# Columns


def test_each_column_has_vectors_of_its_own():
    columns = Columns(numbers=2, categories=(3, 2, 4), embedding=5)
    assert columns.embedding.weight.shape == (9, 5)
    seen = set()
    for column, n in enumerate((3, 2, 4)):
        for code in range(n):
            codes = torch.zeros(1, 3, dtype=torch.long)
            codes[0, column] = code
            row = columns(torch.tensor([[7.0, 8.0]]), codes)[0]
            assert row[:2].tolist() == [7.0, 8.0]
            vectors = row[2:].view(3, 5)
            assert (vectors[column] == 0).all() == (code == 0)
            seen.add(tuple(vectors[column].tolist()))
    assert len(seen) == 1 + 2 + 1 + 3  # nothing known, and one for each value


def test_a_category_that_train_does_not_have_says_nothing():
    model = RowMLP(RowMLPConfig(numbers=(2,), categories=(4,), outputs=2))
    numbers, codes = torch.randn(64, 2), torch.randint(1, 4, (64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(20):
        optimizer.zero_grad()
        LOSSES["cross-entropy"].losses(model(numbers, codes), codes[:, 0] % 2).mean().backward()
        optimizer.step()
    assert model.columns.embedding.weight[0].abs().sum() == 0
    assert model.columns.embedding.weight[1:].abs().min() > 0


def test_one_hot_rows_are_the_rows_of_the_identity():
    numbers, codes = torch.randn(5, 2, 3), torch.tensor([[0, 1], [2, 0], [1, 1], [0, 0], [2, 1]])
    row = one_hot_row(numbers, codes, (3, 2))
    by_hand = torch.cat([numbers.view(5, 6), torch.eye(3)[codes[:, 0]], torch.eye(2)[codes[:, 1]]], dim=1)
    assert torch.equal(row, by_hand)


@pytest.mark.parametrize("name", sorted({*networks_for("table")} & {*networks_for("images")}))
def test_an_image_is_the_row_of_its_pixels(name):
    card = find_network(name, "images")
    config = card.of_size("tiny", ExampleShape((1, 4, 4), (), 3))
    of_images, of_rows = card.build(config).eval(), card.build(dataclasses.replace(config, numbers=(16,))).eval()
    of_rows.load_state_dict(of_images.state_dict())
    images = torch.randn(64, 1, 4, 4)
    assert torch.equal(of_images(images, NO_CODES), of_rows(images.view(64, 16), NO_CODES))


@pytest.mark.parametrize("name", sorted({*networks_for("table")} & {*networks_for("images")}))
def test_pixels_have_no_neighbours(name):
    """Shuffled in the same way in every image, and with them the weights that read them, they say the same."""
    card = find_network(name, "images")
    model = card.build(card.of_size("tiny", ExampleShape((1, 4, 4), (), 3)))
    images, order = torch.randn(64, 16), torch.randperm(16)
    before = model(images.view(64, 1, 4, 4), NO_CODES)
    first = next(part for part in model.modules() if isinstance(part, nn.Linear) and part.in_features == 16)
    with torch.no_grad():
        first.weight.copy_(first.weight[:, order])
        if name == "autoencoder":  # which writes them as well
            model.head.weight.copy_(model.head.weight[order])
            before = before[:, order]
    after = model(images[:, order].view(64, 1, 4, 4), NO_CODES)
    assert torch.allclose(before, after, atol=1e-6)


# Logistic regression


def test_logistic_regression_is_sklearns():
    """The same minimum: C·Σ loss + ½|w|² there, and mean loss + λ·½|w|² with λ = 1 / (C·n) here; biases are free."""
    n, c = 200, 0.5
    numbers = torch.randn(n, 3, dtype=torch.float64)
    codes = torch.randint(0, 4, (n, 1))
    classes = (numbers[:, 0] + 0.5 * codes[:, 0] + torch.randn(n) > 1).long() + (numbers[:, 1] > 0.8).long()
    model = Logistic(LogisticConfig(numbers=(3,), categories=(4,), outputs=3)).double()

    def loss() -> Tensor:
        mean = LOSSES["cross-entropy"].losses(model(numbers, codes), classes).mean()
        return mean + penalty("l2", model.parameters()) / (c * n)

    minimised(model, loss)
    twin = LogisticRegression(C=c, tol=1e-10, max_iter=10_000).fit(one_hot_row(numbers, codes, (4,)), classes)
    assert np.abs(model.head.weight.detach().numpy() - twin.coef_).max() < 1e-5
    shares = LOSSES["cross-entropy"].probabilities(model(numbers, codes)).detach().numpy()
    assert np.abs(shares - twin.predict_proba(one_hot_row(numbers, codes, (4,)))).max() < 1e-5


def test_with_one_output_it_is_linear_regression():
    numbers = torch.randn(64, 3, dtype=torch.float64)
    targets = numbers @ torch.tensor([1.0, -2.0, 0.5]).double() + 3 + 0.1 * torch.randn(64)
    model = Logistic(LogisticConfig(numbers=(3,), categories=(), outputs=1)).double()
    minimised(model, lambda: LOSSES["mse"].losses(model(numbers, NO_CODES), targets).mean())
    solved = torch.linalg.lstsq(torch.cat([numbers, torch.ones(64, 1)], dim=1), targets).solution
    assert torch.allclose(torch.cat([model.head.weight[0], model.head.bias]), solved, atol=1e-6)


# MLP


def test_the_mlp_is_its_formula():
    model = RowMLP(RowMLPConfig(numbers=(4,), categories=(), outputs=2, hidden=8, activation="tanh"))
    x = torch.randn(64, 4)
    (w1, b1), (w2, b2) = ((layer.linear.weight, layer.linear.bias) for layer in model.layers)
    by_hand = ((x @ w1.T + b1).tanh() @ w2.T + b2).tanh() @ model.head.weight.T + model.head.bias
    assert torch.allclose(model(x, NO_CODES), by_hand, atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_signals_keep_their_size(activation):
    """Each pre-activation begins with variance 1, to a tenth: 1,000 rows through 300 units five times over."""
    model = RowMLP(RowMLPConfig(numbers=(100,), categories=(), outputs=3, hidden=300, depth=5, activation=activation))
    x = torch.randn(1000, 100)
    for layer in model.layers:
        assert abs(layer.linear(x).square().mean().item() - 1) < 0.15
        x = layer(x)


@pytest.mark.parametrize("build", [RowMLP, Plain, Residual])
def test_batch_norms_are_folded_away(build):
    config = {RowMLP: RowMLPConfig, Plain: DeepConfig, Residual: DeepConfig}[build]
    model = build(config(numbers=(4,), categories=(), outputs=2, norm="batch"))
    for _ in range(3):
        model(3 * torch.randn(64, 4) + 1, NO_CODES)
    ready = model.for_inference()
    assert any(isinstance(part, BatchNorm) for part in model.modules())
    assert not any(isinstance(part, BatchNorm) for part in ready.modules())
    x = torch.randn(64, 4)
    assert torch.allclose(ready(x, NO_CODES), model.eval()(x, NO_CODES), atol=1e-5)


def test_dropout_is_for_training_alone():
    model = RowMLP(RowMLPConfig(numbers=(4,), categories=(), outputs=2, dropout=0.5))
    x = torch.randn(64, 4)
    assert not torch.equal(model(x, NO_CODES), model(x, NO_CODES))
    model.eval()
    assert torch.equal(model(x, NO_CODES), model(x, NO_CODES))


def test_images_are_read_with_batch_norm_and_tables_without():
    sized = find_network("mlp", "images").of_size
    assert sized("small", ExampleShape((1, 8, 8), (), 10)).norm == "batch"
    assert sized("small", ExampleShape((64,), (), 10)).norm == "none"


# Plain and residual


def deep(build: type[Plain] | type[Residual], depth: int = 4) -> Plain | Residual:
    """One with other weights than its first, so that blocks do something."""
    model = build(DeepConfig(numbers=(4,), categories=(), outputs=3, width=8, depth=depth))
    for block in model.blocks:
        nn.init.normal_(block.back.weight, std=0.3)
        nn.init.normal_(block.back.bias, std=0.3)
    return model


def test_the_twins_differ_in_x_alone():
    x = torch.randn(64, 4)
    plain, residual = deep(Plain), deep(Residual)
    residual.load_state_dict(plain.state_dict())
    for model, share in ((plain, 0), (residual, 1)):
        stream = model.stem(x)
        for block in model.blocks:
            stream = share * stream + block(stream)
        assert torch.allclose(model(x, NO_CODES), model.head(stream), atol=1e-6)


def test_the_slope_of_a_residual_block_is_one_more():
    model = deep(Residual).double()
    block, x = model.blocks[0], torch.randn(8, dtype=torch.float64)
    of_feat = torch.autograd.functional.jacobian(block, x)
    of_block = torch.autograd.functional.jacobian(lambda stream: model.combine(stream, block(stream)), x)
    assert torch.allclose(of_block, torch.eye(8).double() + of_feat, atol=1e-12)


def test_a_new_residual_network_does_not_know_how_deep_it_is():
    model = Residual(DeepConfig(numbers=(4,), categories=(), outputs=3, depth=30))
    x = torch.randn(64, 4)
    assert torch.equal(model(x, NO_CODES), model.head(model.stem(x)))


def test_left_out_a_residual_block_is_the_identity_and_a_plain_one_the_end():
    x = torch.randn(64, 4)
    residual, plain = deep(Residual), deep(Plain)
    assert torch.allclose(residual.without([1, 3], x, NO_CODES), residual.drop_blocks([1, 3])(x, NO_CODES), atol=1e-6)
    assert torch.equal(residual.without([], x, NO_CODES), residual(x, NO_CODES))
    scores = plain.without([1], x, NO_CODES)
    assert torch.equal(scores, scores[:1].expand_as(scores))


def test_a_shortened_network_is_built_by_its_configuration():
    model = deep(Residual)
    short = model.drop_blocks([0])
    assert short.config == dataclasses.replace(model.config, depth=3)
    assert len(model.blocks) == 4
    again = Residual(short.config)
    again.load_state_dict(short.state_dict())
    with pytest.raises(PellucidError, match="all 4 blocks would be left out"):
        model.drop_blocks(range(4))


def test_what_each_block_is_worth_is_measured():
    x, classes = torch.randn(64, 4), torch.randint(0, 3, (64,))
    model = deep(Residual)
    for parameter in model.blocks[2].parameters():  # a block that does nothing
        nn.init.zeros_(parameter)
    losses = LOSSES["cross-entropy"].losses
    depth = depth_of(model, x, NO_CODES, classes, losses)
    assert depth.whole == pytest.approx(losses(model(x, NO_CODES), classes).mean().item(), abs=1e-6)
    assert depth.without[1] == pytest.approx(losses(model.without([1], x, NO_CODES), classes).mean().item(), abs=1e-6)
    assert depth.loss_increases[2] == 0
    assert all(lost != 0 for block, lost in enumerate(depth.loss_increases) if block != 2)


def test_a_trained_residual_network_bears_the_loss_of_a_block_and_its_twin_does_not():
    """On a polynomial, in units in which answering the mean costs 1."""
    x = 4 * torch.rand(64, 2) - 2
    y = (x**3 + 3 * x**2).sum(1)
    targets = (y - y.mean()) / y.std()
    losses = LOSSES["mse"].losses
    depths = {}
    for build, config in ((Plain, DeepConfig), (Residual, DeepConfig)):
        model = build(config(numbers=(2,), categories=(), outputs=1, width=32, depth=6))
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        for _ in range(150):
            optimizer.zero_grad()
            losses(model(x, NO_CODES), targets).mean().backward()
            optimizer.step()
        depths[build] = depth_of(model, x, NO_CODES, targets, losses)
    assert max(depth.whole for depth in depths.values()) < 0.1
    assert min(depths[Plain].without) > 0.95
    assert max(depths[Residual].without) < 0.5


# Autoencoder


def test_without_hidden_layers_it_finds_the_principal_axes():
    axes = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64)).Q * torch.tensor([3, 2, 1, 0.5, 0.3, 0.1]).double()
    rows = torch.randn(64, 6, dtype=torch.float64) @ axes.T
    rows -= rows.mean(0)
    model = Autoencoder(AutoencoderConfig(numbers=(6,), categories=(), outputs=6, latent=2, depth=0)).double()
    minimised(model, lambda: LOSSES["mse"].losses(model(rows, NO_CODES), rows).mean(), rounds=500)
    twin = PCA(2).fit(rows)
    back = twin.inverse_transform(twin.transform(rows))
    ours = model(rows, NO_CODES).detach().numpy()
    assert np.square(ours - rows.numpy()).mean() == pytest.approx(np.square(back - rows.numpy()).mean(), rel=1e-6)
    assert np.abs(ours - back).max() < 1e-3


def test_it_gives_back_numbers_and_categories_as_one_row():
    model = Autoencoder(AutoencoderConfig(numbers=(2,), categories=(3, 2), outputs=7, latent=3))
    numbers, codes = torch.tensor([[0.5, -1.0]]), torch.tensor([[2, 0]])
    assert model.reconstruction_target(numbers, codes).tolist() == [[0.5, -1.0, 0, 0, 1, 1, 0]]
    latent = model.latent(numbers, codes)
    assert latent.shape == (1, 3)
    assert torch.equal(model.decode(latent), model(numbers, codes))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"outputs": 6}, "an autoencoder of rows of 7 numbers cannot have 6 outputs. Give it 7."),
        ({"latent": 7}, "latent is 7. The nearest that can be is 6."),
        (
            {"numbers": (1,), "categories": (), "outputs": 1, "latent": 1},
            "a row of a single number cannot go through anything narrower. Give it more columns.",
        ),
    ],
)
def test_what_is_no_narrow_place_is_refused(change, said):
    config = AutoencoderConfig(numbers=(2,), categories=(3, 2), outputs=7)
    with pytest.raises(PellucidError) as refusal:
        dataclasses.replace(config, **change)
    assert str(refusal.value) == said


def test_its_size_follows_the_row_and_not_the_labels():
    card = find_network("autoencoder", "images")
    config = card.of_size("large", ExampleShape((3,), (4,), outputs=2))
    assert (config.outputs, config.latent) == (7, 3)
