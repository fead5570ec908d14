"""What a step does besides its updates, and what is done to gradients on their way: seen in real runs, and proven."""

import torch
from torch import Tensor, nn

from pellucid.inspection.doctor import diagnose
from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def grave(specimen: Specimen, rule: str) -> list[str]:
    return [one.seen for one in diagnose(specimen, [rule]).findings if one.severity in ("broken", "suspicious")]


def loop(noise_in_place: bool = False, is_column: bool = False, most: float = 0.0) -> Specimen:
    """A step of training on data that it holds. most: gradients are clipped to it, where it is not 0."""
    with fixed_rng():
        data, wanted = torch.randn(32, 6), torch.randn(32)
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def step() -> Tensor:
        batch = data[:16]
        if noise_in_place:
            batch += 0.1 * torch.randn(16, 6)
        else:
            batch = batch + 0.1 * torch.randn(16, 6)
        outputs = model(batch)
        loss: Tensor = ((outputs if is_column else outputs.squeeze(-1)) - wanted[:16]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        if most:
            nn.utils.clip_grad_norm_(model.parameters(), most)
        optimizer.step()
        return loss.detach()

    return Specimen(model, (data[:16].clone(),), wanted[:16], optimizer=optimizer, step=step)


def test_a_step_that_leaves_its_data_alone_is_not_called_ill():
    assert grave(loop(), "own-step") == []


def test_a_step_that_writes_into_its_data_is_seen():
    assert "of the rows of the stored data are changed" in grave(loop(noise_in_place=True), "own-step")[0]


def test_the_difference_of_a_column_and_a_row_is_seen():
    assert any("(16, 1) and (16,)" in one for one in grave(loop(is_column=True), "own-step"))


def test_gradients_cut_to_nothing_are_given_back_to_see_what_they_cost():
    assert "where the optimizer gets what backward gave" in grave(loop(most=1e-9), "update-ratio")[0]
    assert grave(loop(most=10.0), "update-ratio") == []


def classes(model: nn.Module, inputs: Tensor) -> Specimen:
    return Specimen(model, (inputs,), torch.arange(len(inputs)) % 3, nn.CrossEntropyLoss())


def test_gradients_that_are_negated_are_seen_also_of_an_embedding_with_padding():
    with fixed_rng():
        model = nn.Sequential(nn.Embedding(5, 4, padding_idx=0), nn.Flatten(), nn.Linear(12, 3))
        tokens = torch.randint(1, 5, (16, 3))
    assert grave(classes(model, tokens), "detached-path") == []
    model[0].weight.register_hook(lambda gradient: -gradient)
    assert "-1 times" in grave(classes(model, tokens), "detached-path")[0]


def test_a_row_of_padding_that_the_loss_depends_on_is_noted_and_nothing_is_certified():
    with fixed_rng():
        model = nn.Sequential(nn.Embedding(5, 4, padding_idx=0), nn.Flatten(), nn.Linear(12, 3))
        tokens = torch.randint(0, 5, (16, 3))
    found = diagnose(classes(model, tokens), ["detached-path"]).findings
    assert [one.severity for one in found if one.rule == "detached-path"] == ["note"]
