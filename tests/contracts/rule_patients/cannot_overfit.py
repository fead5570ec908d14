"""The patients of the rule cannot-overfit."""

from tests.contracts.rule_patients.chance_plateau import trained_reader

from pellucid.inspection.instrument.specimen import Specimen


def sick() -> Specimen:
    return trained_reader(is_whole=True, steps=1)


def well() -> Specimen:
    return trained_reader(is_whole=False, steps=1)
