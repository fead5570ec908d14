"""The terms of a loss and slopes by differences, against what a hand or another way of computing gives."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from pellucid.inspection.instrument.differences import Differences, direction_of
from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.loss_terms import record_terms, whole_loss
from pellucid.inspection.instrument.specimen import Specimen
from pellucid.inspection.rules import rules
from pellucid.records import Finding

pytestmark = pytest.mark.usefixtures("one_thread")


def values(terms):
    return [term.value.item() for term in terms]


def test_terms_are_those_that_were_written_down():
    with fixed_rng():
        scores, labels = torch.randn(6, 3, requires_grad=True), torch.arange(6) % 3
    first, second, third = functional.cross_entropy(scores, labels), scores.square().sum(), scores.std()

    def added_in_place():
        loss = torch.zeros(())
        for one in (functional.cross_entropy(scores, labels), 0.1 * scores.square().sum()):
            loss += one
        loss /= 2
        return loss - scores.std()

    def stacked():
        return 3 * torch.stack([functional.cross_entropy(scores, labels), scores.std()]).mean()

    loss, terms = record_terms(added_in_place)
    kept = [one for one in values(terms) if one]
    assert kept == pytest.approx([first.item() / 2, 0.05 * second.item(), -third.item()], rel=1e-5)
    assert sum(values(terms)) == pytest.approx(loss.item(), rel=1e-5)
    assert values(record_terms(stacked)[1]) == pytest.approx([1.5 * first.item(), 1.5 * third.item()], rel=1e-5)
    # The gradients of the terms add up to that of the loss.
    whole = torch.autograd.grad(loss, scores, retain_graph=True)[0]
    parts = [
        torch.autograd.grad(term.value, scores, retain_graph=True)[0] for term in terms if term.value.requires_grad
    ]
    assert torch.allclose(sum(parts), whole, atol=1e-6)


def test_a_term_without_a_graph_is_one_too():
    scores = torch.ones(4, requires_grad=True)
    _, terms = record_terms(lambda: scores.sum() + 0.5 * torch.tensor([one.item() for one in scores]).mean())
    assert [(term.value.item(), term.value.requires_grad) for term in terms] == [(4.0, True), (0.5, False)]


def test_a_product_of_two_terms_is_one():
    scores = torch.full((2,), 3.0, requires_grad=True)
    assert values(record_terms(lambda: scores.sum() * scores.mean())[1]) == [18.0]


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.mean, self.spread = nn.Linear(4, 8), nn.Linear(8, 1), nn.Linear(8, 1)

    def forward(self, rows):
        hidden = self.body(rows).tanh()
        return {"mean": self.mean(hidden), "spread": (self.spread(hidden),), "count": torch.tensor(len(rows))}


def two_heads(loss):
    with fixed_rng():
        return Specimen(TwoHeads(), (torch.randn(12, 4),), {"y": torch.randn(12, 1)}, loss)


def test_a_whole_loss_takes_every_floating_output():
    specimen = two_heads(lambda out, wanted: (out["mean"] - wanted["y"]).square().sum() + 3 * out["spread"][0].sum())
    whole = whole_loss(specimen)
    assert [tuple(one.shape) for one in whole.tensors] == [(12, 1), (12, 1)]
    slopes = whole.slopes([torch.zeros(12, 1), torch.zeros(12, 1)])
    assert torch.allclose(slopes[0], -2 * specimen.targets["y"])
    assert torch.equal(slopes[1], torch.full((12, 1), 3.0))
    assert len(whole.terms_at(whole.tensors)) == 2


def test_slopes_by_differences_are_those_of_autograd_where_nothing_is_cut():
    specimen = two_heads(
        lambda out, wanted: (out["mean"] - wanted["y"]).square().mean() + out["spread"][0].exp().mean()
    ).double()
    differences = Differences(specimen, dict(specimen.model.named_parameters()))
    for path, parameter in specimen.model.named_parameters():
        way = direction_of(parameter)
        outputs = specimen.model(*specimen.inputs)
        slope = torch.autograd.grad(specimen.loss_of(outputs), parameter)[0]
        found = differences.along({path: way})[-1]
        assert found.told == pytest.approx(float((slope * way).sum()), rel=1e-9)
        assert found.measured == pytest.approx(found.told, rel=1e-5, abs=1e-9)


# Gradients that are stopped, turned or made up on purpose: none of them is an illness.


class TemporalDifference(nn.Module):
    """Values of two states, of which the second is the target of the first."""

    def __init__(self):
        super().__init__()
        self.value = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, states):
        return self.value(states[:, 0]), self.value(states[:, 1])


def temporal_difference():
    with fixed_rng():
        model, states, rewards = TemporalDifference(), torch.randn(16, 2, 4), torch.randn(16, 1)
    loss = lambda out, reward: (reward + 0.9 * out[1].detach() - out[0]).square().mean()  # noqa: E731
    return Specimen(model, (states,), rewards, loss, torch.optim.Adam(model.parameters()))


class Siamese(nn.Module):
    """Two views, a predictor, and an encoding that is only a target."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 8))
        self.predictor = nn.Linear(8, 8)

    def forward(self, views):
        one, other = self.encoder(views[:, 0]), self.encoder(views[:, 1])
        return self.predictor(one), self.predictor(other), one.detach(), other.detach()


def siamese():
    with fixed_rng():
        model, views = Siamese(), torch.randn(16, 1, 6) + 0.1 * torch.randn(16, 2, 6)

    def loss(out, _):
        similar = functional.cosine_similarity
        return -0.5 * (similar(out[0], out[3]).mean() + similar(out[1], out[2]).mean())

    return Specimen(model, (views,), torch.zeros(16), loss, torch.optim.Adam(model.parameters()))


class Quantiser(nn.Module):
    """The nearest of 8 codes, straight through, with both of its own terms."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(6, 4), nn.Linear(4, 6)
        self.codes = nn.Parameter(torch.randn(8, 4))

    def forward(self, rows):
        made = self.encoder(rows)
        nearest = self.codes[torch.cdist(made, self.codes).argmin(1)]
        own = (nearest - made.detach()).square().mean() + 0.25 * (made - nearest.detach()).square().mean()
        return self.decoder(made + (nearest - made).detach()), own


def quantiser():
    with fixed_rng():
        model, rows = Quantiser(), torch.randn(32, 6)
    loss = lambda out, wanted: functional.mse_loss(out[0], wanted) + out[1]  # noqa: E731
    return Specimen(model, (rows,), rows.clone(), loss, torch.optim.Adam(model.parameters()))


class _Reverse(torch.autograd.Function):
    @staticmethod
    def forward(context, rows):
        return rows.view_as(rows)

    @staticmethod
    def backward(context, slope):
        return -0.5 * slope


class DomainAdversary(nn.Module):
    """The label is to be told from the features, and the domain is not."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.Tanh())
        self.label, self.domain = nn.Linear(16, 3), nn.Linear(16, 2)

    def forward(self, rows):
        features = self.body(rows)
        return self.label(features), self.domain(_Reverse.apply(features))


def domain_adversary():
    with fixed_rng():
        model, rows = DomainAdversary(), torch.randn(24, 6)
    targets = {"label": torch.arange(24) % 3, "domain": torch.arange(24) % 2}

    def loss(out, wanted):
        return functional.cross_entropy(out[0], wanted["label"]) + functional.cross_entropy(out[1], wanted["domain"])

    return Specimen(model, (rows,), targets, loss, torch.optim.Adam(model.parameters()))


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.Tanh())
        self.policy, self.value = nn.Linear(16, 3), nn.Linear(16, 1)

    def forward(self, states):
        features = self.body(states)
        return self.policy(features), self.value(features)


def actor_critic():
    with fixed_rng():
        model, states, returns = ActorCritic(), torch.randn(24, 4), torch.randn(24)

    def loss(out, wanted):
        advantage = wanted["returns"] - out[1].squeeze(-1)
        chosen = out[0].log_softmax(-1).gather(1, wanted["action"][:, None]).squeeze(-1)
        return -(chosen * advantage.detach()).mean() + advantage.square().mean()

    targets = {"returns": returns, "action": torch.arange(24) % 3}
    return Specimen(model, (states,), targets, loss, torch.optim.Adam(model.parameters()))


class Probed(nn.Module):
    """A second head that reads the features and leaves them alone."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.Tanh())
        self.head, self.probe = nn.Linear(16, 3), nn.Linear(16, 2)

    def forward(self, rows):
        features = self.body(rows)
        return self.head(features), self.probe(features.detach())


def probed():
    return Specimen(Probed(), *domain_adversary_batch())


def domain_adversary_batch():
    given = domain_adversary()
    return given.inputs, given.targets, given.loss


MEANT = [temporal_difference, siamese, quantiser, domain_adversary, actor_critic, probed]


def spoken(specimen, rule="detached-path") -> list[Finding]:
    return [one for one in rules()[rule].check(specimen) if one.severity in ("broken", "suspicious")]


class AddedAndTakenAway(nn.Module):
    """What it puts out does not depend on its weights, but for rounding."""

    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(torch.randn(6))

    def forward(self, rows):
        return rows + 20.3 * self.weights - 20.3 * self.weights


def test_what_only_rounding_changes_has_a_slope_of_nothing():
    with fixed_rng():
        model, rows = AddedAndTakenAway().double(), torch.randn(32, 6).double()
    specimen = Specimen(model, (rows,), rows.clone(), functional.mse_loss, torch.optim.Adam(model.parameters()))
    found = Differences(specimen, dict(model.named_parameters()))
    assert len({found.values_at(found.direction(["weights"]), step)[0] for step in (1e-6, 1e-5, 1e-4)}) > 1  # it moves
    assert found.along(found.direction(["weights"]))[0].measured == 0


@pytest.mark.parametrize("make", MEANT, ids=lambda make: make.__name__)
def test_gradients_that_are_stopped_on_purpose_are_no_illness(make):
    with fixed_rng():
        assert spoken(make()) == []


class _WrongSquare(torch.autograd.Function):
    @staticmethod
    def forward(context, rows):
        context.save_for_backward(rows)
        return rows.square()

    @staticmethod
    def backward(context, slope):
        (rows,) = context.saved_tensors
        return slope * rows.abs()


class Branches(nn.Module):
    """A sum of two ways, one of which may be cut, squared by a backward that may be wrong, with noise or without."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, rows):
        hidden = self.body(rows)
        other = {
            "detached": lambda: hidden.detach().sin(),
            "no_grad": self._without_gradient(hidden),
            "data": lambda: hidden.data.sin(),
            "wrong backward": lambda: _WrongSquare.apply(hidden),
            "well": lambda: hidden.sin(),
        }[self.kind]()
        return self.head(hidden.tanh() + other)

    def _without_gradient(self, hidden):
        def run():
            with torch.no_grad():
                return hidden.sin()

        return run


@pytest.mark.parametrize("kind", ["detached", "no_grad", "data", "wrong backward", "well"])
def test_a_branch_that_is_cut_or_wrong_is_found(kind):
    with fixed_rng():
        specimen = Specimen(Branches(kind), (torch.randn(12, 4),), torch.randn(12, 2), nn.MSELoss())
    found = spoken(specimen)
    if kind == "well":
        assert found == []
    else:
        assert "body.weight" in found[0].seen
        # What is advised was tried: where it was a cut, both slopes agree without it.
        assert ("it was tried" in found[0].try_next) == (kind != "wrong backward")


# Terms and outputs beside the first.


class Variational(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(6, 4), nn.Linear(2, 6)

    def forward(self, rows):
        middle, log_variance = self.encoder(rows).chunk(2, dim=1)
        code = middle + torch.randn_like(middle) * (0.5 * log_variance).exp()
        return self.decoder(code), middle, log_variance


def variational(sign=1.0, reduction="sum"):
    with fixed_rng():
        model, rows = Variational(), torch.randn(16, 6)

    def loss(out, wanted):
        rebuilt, middle, log_variance = out
        divergence = -0.5 * (1 + log_variance - middle.square() - log_variance.exp()).sum(1)
        error = (rebuilt - wanted).square().sum(1)
        return error.sum() + sign * getattr(divergence, reduction)()

    return Specimen(model, (rows,), rows.clone(), loss)


def test_a_divergence_with_the_wrong_sign_falls_without_end():
    assert spoken(variational(), "bottomless-loss") == []
    found = spoken(variational(sign=-1.0), "bottomless-loss")
    assert found
    assert all("wrong sign" in one.means for one in found)


def test_terms_that_are_reduced_in_two_ways_are_found():
    assert spoken(variational(), "accumulation") == []
    (found,) = spoken(variational(reduction="mean"), "accumulation")
    assert "one is a sum over the rows and the other a mean" in found.means


@pytest.mark.parametrize("is_of_tokens", [False, True])
def test_a_mean_over_rows_is_certified_only_where_single_rows_say_so(is_of_tokens):
    """Rows of unlike length: a mean over all tokens is no mean over rows, though both halves here cost the same."""
    lengths = torch.tensor([1, 3, 5, 5, 3, 1])
    mask = torch.arange(5) < lengths[:, None]
    with fixed_rng():
        half = torch.randn(3, 5)
    targets = torch.cat([half, half.flip(0)])

    def loss(outputs, wanted):
        cost = (outputs - wanted["y"]).square() * wanted["mask"]
        if is_of_tokens:
            return cost.sum() / wanted["mask"].sum()
        return (cost.sum(1) / wanted["mask"].sum(1)).mean()

    model = nn.Linear(5, 5)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    specimen = Specimen(model, (targets.clone(),), {"y": targets, "mask": mask.float()}, loss)
    sound = [one for one in rules()["accumulation"].check(specimen) if one.severity == "sound"]
    assert bool(sound) != is_of_tokens


@pytest.mark.parametrize(("last", "is_ill"), [(nn.Identity(), True), (nn.Softplus(), False)])
def test_an_error_divided_by_the_output_is_right_where_outputs_are_above_0(last, is_ill):
    with fixed_rng():
        model, rows = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1), last), torch.randn(32, 5)
    targets = rows[:, :1].exp()
    specimen = Specimen(model, (rows,), targets, lambda out, wanted: ((out - wanted).abs() / (out + 0.01)).mean())
    assert bool(spoken(specimen, "unwanted-answers")) == is_ill
