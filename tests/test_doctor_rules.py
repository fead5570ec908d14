"""Bugs in the shapes that people write them, and right designs that look like them: what single rules say of both."""

import math
import re
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.inspection.instrument.specimen import Specimen
from pellucid.inspection.rules import rules
from pellucid.records import Finding

RULES = rules()
WIDTH, VOCAB = 16, 11


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def said(rule: str, patient: Specimen) -> list[Finding]:
    return list(RULES[rule].check(patient))


def worst(rule: str, patient: Specimen) -> str:
    """The gravest thing that a rule says; "" where it says nothing."""
    found = [one.severity for one in said(rule, patient)]
    return next((grave for grave in ("broken", "suspicious", "note", "sound") if grave in found), "")


def of_tokens(scores: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(scores.flatten(0, 1), targets.flatten())


class Decoder(nn.Module):
    """One head of attention over tokens, masked in one of the ways that people mask."""

    def __init__(self, masked: str, size: float = 1.0) -> None:
        super().__init__()
        self.masked = masked
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.queries, self.keys, self.values = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.head = nn.Linear(WIDTH, VOCAB)
        with torch.no_grad():
            self.queries.weight.mul_(size)
            self.keys.weight.mul_(size)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        q, k, v = self.queries(x), self.keys(x), self.values(x)
        ahead = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).triu(1)
        if self.masked == "by torch":
            return self.head(functional.scaled_dot_product_attention(q, k, v, is_causal=True))
        if self.masked == "by torch, in eval alone":  # the flag was dropped with dropout
            return self.head(functional.scaled_dot_product_attention(q, k, v, is_causal=not self.training))
        scores = q @ k.transpose(1, 2) / WIDTH**0.5
        if self.masked == "with -inf":
            scores = scores.masked_fill(ahead, -math.inf)
        elif self.masked == "with -1e4":
            scores = scores - 1e4 * ahead
        elif self.masked == "after the softmax":
            return self.head((scores.softmax(-1) * ~ahead) @ v)
        elif self.masked == "one too late":
            scores = scores.masked_fill(ahead.triu(2), -math.inf)
        return self.head(scores.softmax(-1) @ v)


def reading(model: nn.Module, is_causal: bool | None = True) -> Specimen:
    tokens = torch.randint(0, VOCAB, (4, 9))
    return Specimen(model, (tokens[:, :-1],), tokens[:, 1:], of_tokens, is_causal=is_causal)


@pytest.mark.parametrize(
    ("masked", "severity"),
    [
        ("with -inf", "sound"),
        ("by torch", "sound"),
        ("with -1e4", "suspicious"),  # it holds, until scores grow
        ("not at all", "broken"),
        ("after the softmax", "broken"),  # the future is in the denominator
        ("one too late", "broken"),
        ("by torch, in eval alone", "broken"),
    ],
)
def test_masks(masked, severity):
    assert worst("future-leak", reading(Decoder(masked))) == severity


def test_a_mask_that_large_scores_beat_now_is_broken():
    assert worst("future-leak", reading(Decoder("with -1e4", size=300.0))) == "broken"


def test_a_leak_is_named_with_the_way_of_running_in_which_it_shows():
    (leak,) = said("future-leak", reading(Decoder("by torch, in eval alone")))
    assert "in training" in leak.seen


def test_whether_it_must_not_see_ahead_is_told_by_what_the_loss_asks():
    assert worst("future-leak", reading(Decoder("not at all"), is_causal=None)) == "broken"
    assert said("future-leak", reading(Decoder("not at all"), is_causal=False)) == []
    labels = replace(reading(Decoder("not at all"), is_causal=None), targets=torch.randint(0, VOCAB, (4, 8)))
    assert said("future-leak", labels) == []


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_the_floor_of_two_softmaxes_is_as_the_formula_says(classes):
    model = nn.Sequential(nn.Linear(4, classes), nn.Softmax(-1))
    patient = Specimen(model, (torch.randn(classes, 4),), torch.arange(classes), nn.CrossEntropyLoss())
    (finding,) = said("double-softmax", patient)
    floor = math.log(1 + (classes - 1) / math.e)
    measured, by_formula = (float(number) for number in re.findall(r"\d+\.\d{4}", finding.seen)[:2])
    assert finding.severity == "broken"
    assert measured == pytest.approx(floor, abs=2e-4)
    assert by_formula == pytest.approx(floor, abs=1e-4)


def test_a_row_that_adds_up_to_one_by_chance_is_no_softmax():
    layer = nn.Linear(3, 2)
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.fill_(0.5)
    patient = Specimen(layer, (torch.randn(6, 3),), torch.arange(6) % 2, nn.CrossEntropyLoss())
    assert worst("double-softmax", patient) == "sound"


def test_scores_that_happen_to_lie_within_0_and_1_went_through_no_sigmoid():
    layer = nn.Linear(3, 1)
    with torch.no_grad():
        layer.weight.mul_(0.1)
        layer.bias.fill_(0.5)
    patient = Specimen(layer, (torch.randn(6, 3),), (torch.arange(6.0) % 2)[:, None], nn.BCEWithLogitsLoss())
    assert worst("sigmoid-before-logits", patient) == "sound"


def test_batch_norm_lets_rows_meet_in_training_alone():
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    in_eval, in_training = said("batch-mixing", Specimen(model, (torch.randn(6, 4),)))
    assert (in_eval.severity, in_training.severity, in_training.where) == ("sound", "note", "1")


class QueryKeyValue(nn.Module):
    """Attention with one matrix for all three, whose weights are cut off from the scores or not."""

    def __init__(self, is_cut: bool) -> None:
        super().__init__()
        self.is_cut = is_cut
        self.all = nn.Linear(6, 18)
        self.head = nn.Linear(6, 3)

    def forward(self, rows: Tensor) -> Tensor:
        queries, keys, values = self.all(rows).chunk(3, -1)
        weights = (queries @ keys.transpose(1, 2)).softmax(-1)
        return self.head((weights.detach() if self.is_cut else weights) @ values).mean(1)


def test_two_thirds_of_a_matrix_can_be_cut_off():
    patient = Specimen(QueryKeyValue(True), (torch.randn(9, 5, 6),), torch.arange(9) % 3, nn.CrossEntropyLoss())
    (finding,) = said("detached-path", patient)
    assert finding.severity == "broken"
    assert finding.where == "all"
    assert finding.seen.startswith(f"{12 * 6 + 12} weights")  # of queries and keys, with their biases
    assert worst("detached-path", replace(patient, model=QueryKeyValue(False))) == "sound"


def test_a_skip_that_is_cut_in_part_is_noticed():
    class Skip(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, rows: Tensor) -> Tensor:
            hidden = self.first(rows)
            return self.second(hidden + hidden.detach().tanh())

    patient = Specimen(Skip(), (torch.randn(9, 4),), torch.arange(9) % 3, nn.CrossEntropyLoss())
    (finding,) = said("detached-path", patient)
    assert (finding.severity, finding.where) == ("suspicious", "first")


def test_padding_that_torch_keeps_from_learning_is_not_cut():
    """It is noted only that what stands for nothing has a part in the answer, since this model looks at all places."""
    model = nn.Sequential(nn.Embedding(5, 4, padding_idx=0), nn.Flatten(), nn.Linear(12, 2))
    tokens = torch.tensor([[1, 2, 0], [3, 0, 0], [4, 1, 2], [2, 2, 0]])
    patient = Specimen(model, (tokens,), torch.tensor([0, 1, 0, 1]), nn.CrossEntropyLoss())
    assert worst("detached-path", patient) == "note"


class FromZero(nn.Module):
    """A branch that begins with a factor of 0, so that nothing in it has a gradient at first."""

    def __init__(self) -> None:
        super().__init__()
        self.branch, self.head = nn.Linear(4, 4), nn.Linear(4, 3)
        self.factor = nn.Parameter(torch.zeros(1))

    def forward(self, rows: Tensor) -> Tensor:
        return self.head(rows + self.factor * self.branch(rows))


def test_weights_without_a_gradient_at_first_are_no_mistake():
    patient = Specimen(FromZero(), (torch.randn(9, 4),), torch.arange(9) % 3, nn.CrossEntropyLoss())
    assert worst("no-gradient", patient) == "sound"
    assert worst("detached-path", patient) == "sound"


def test_frozen_weights_are_a_mistake_where_the_optimizer_has_them():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    model[0].requires_grad_(False)
    patient = Specimen(model, (torch.randn(9, 4),), torch.arange(9) % 3, nn.CrossEntropyLoss())
    assert worst("no-gradient", patient) == "note"
    with_all = replace(patient, optimizer=torch.optim.SGD(model.parameters(), 0.1))
    assert worst("no-gradient", with_all) == "suspicious"


def test_layers_in_a_plain_list_are_found():
    class Listed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [nn.Linear(4, 4), nn.Linear(4, 4)]
            self.head = nn.Linear(4, 3)

        def forward(self, rows: Tensor) -> Tensor:
            for layer in self.layers:
                rows = layer(rows).tanh()
            return self.head(rows)

    patient = Specimen(Listed(), (torch.randn(9, 4),), torch.arange(9) % 3, nn.CrossEntropyLoss())
    (finding,) = said("not-in-optimizer", patient)
    assert finding.severity == "broken"
    assert "4 tensors (40 weights)" in finding.seen


def test_one_input_with_two_answers_is_said_instead_of_tried():
    rows = torch.randn(6, 4).repeat(2, 1)
    patient = Specimen(nn.Linear(4, 3), (rows,), torch.arange(12) % 5 % 3, nn.CrossEntropyLoss())
    (finding,) = said("cannot-overfit", patient)
    assert finding.severity == "note"
    assert "more than one target" in finding.seen


def trained() -> Specimen:
    rows = torch.randn(60, 4)
    labels = rows[:, :3].argmax(1)
    model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(150):
        optimizer.zero_grad()
        functional.cross_entropy(model(rows), labels).backward()
        optimizer.step()
    return Specimen(model, (rows,), labels, nn.CrossEntropyLoss(), optimizer)


def test_labels_in_another_order_are_told_from_labels_without_one():
    patient = trained()
    assert worst("labels-ignored", patient) == "sound"
    assert worst("chance-plateau", patient) == "sound"
    renamed = said("labels-ignored", replace(patient, targets=(patient.targets + 1) % 3))
    assert "classes renamed" in renamed[0].seen
    shifted = said("labels-ignored", replace(patient, targets=patient.targets.roll(1)))
    assert "moved by -1 row" in shifted[0].seen
    shuffled = said("labels-ignored", replace(patient, targets=patient.targets[torch.randperm(60)]))
    assert shuffled[0].severity == "suspicious"


def test_the_layer_to_blame_for_the_first_loss_is_found_by_trial():
    layers = [nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 5)]
    with torch.no_grad():
        layers[4].weight.mul_(60)
    patient = Specimen(nn.Sequential(*layers), (torch.randn(20, 8),), torch.arange(20) % 5, nn.CrossEntropyLoss())
    (finding,) = said("initial-loss", patient)
    assert (finding.severity, finding.where) == ("suspicious", "4")


def test_a_table_of_yes_and_no_that_rebuilds_its_input_is_only_noted():
    rows = (torch.rand(20, 6) > 0.5).float()
    model = nn.Sequential(nn.Linear(6, 3), nn.Linear(3, 6), nn.Sigmoid())
    assert worst("squared-error-on-probabilities", Specimen(model, (rows,), rows, nn.MSELoss())) == "note"


@pytest.mark.parametrize(("outputs", "targets"), [((12, 1), (12,)), ((12,), (12, 1))])
def test_either_side_may_be_laid_across(outputs, targets):
    class Shaped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 1)

        def forward(self, rows: Tensor) -> Tensor:
            return self.linear(rows).reshape(outputs)

    patient = Specimen(Shaped(), (torch.randn(12, 3),), torch.randn(12).reshape(targets), nn.MSELoss())
    assert worst("target-broadcast", patient) == "broken"
    assert worst("target-broadcast", replace(patient, targets=patient.targets.reshape(outputs))) == "sound"


def test_a_gradient_that_is_small_because_much_is_put_out_does_not_vanish():
    """Behind a norm only the share by which an output is changed counts."""
    torch.manual_seed(0)
    large = nn.Linear(8, 16)
    with torch.no_grad():
        large.weight.mul_(1e4)
        large.bias.mul_(1e4)
    model = nn.Sequential(large, nn.LayerNorm(16), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16), nn.Linear(16, 3))
    patient = Specimen(model, (torch.randn(32, 8),), torch.randint(0, 3, (32,)), nn.CrossEntropyLoss())
    (found,) = rules()["gradients-over-depth"].check(patient)
    assert found.severity == "sound"
    assert re.search(r"e-05 times, over 4 layers; times the norms of their outputs \d\.\d times", found.seen)
