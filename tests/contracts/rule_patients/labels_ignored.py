"""The patients of the rule labels-ignored."""

from dataclasses import replace

import torch
from tests.contracts.rule_patients.chance_plateau import trained_reader

from pellucid.inspection.instrument.specimen import Specimen


def _patient(is_shuffled: bool) -> Specimen:
    specimen = trained_reader(is_whole=False)
    assert specimen.targets is not None, "it was trained on them"
    order = torch.randperm(len(specimen.targets), generator=torch.Generator().manual_seed(3))
    return replace(specimen, targets=specimen.targets[order]) if is_shuffled else specimen


def sick() -> Specimen:
    return _patient(is_shuffled=True)


def well() -> Specimen:
    return _patient(is_shuffled=False)
