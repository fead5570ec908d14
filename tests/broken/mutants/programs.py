"""The healthy programs that are edited: the museum's, published ones among them, and twins that strangers repaired."""

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from tests.broken.museum import HEALTHY
from tests.broken.museum.exhibit import Healthy
from tests.broken.twins import load_stranger, names_of_strangers

from pellucid.inspection.doctor import specimen_from
from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen
from pellucid.inspection.rules import rules

STRANGERS = "first"  # the set that may be looked at
# Frozen or noisy on purpose, slow, or without enough steps to tell: of their edits little can be verified.
LEFT_OUT = {"very deep pre-norm", "trained for a while"}
PUBLISHED = ("GPT-2", "Llama", "BERT", "ViT")  # as many as the verification can pay

Program = Callable[[int], Specimen]  # the same for the same seed, with other weights for another


def list_programs() -> dict[str, Program]:
    """By name, in the order of their files."""
    found: dict[str, Program] = {}
    for healthy in HEALTHY:
        _, is_published, name = healthy.name.partition("Hugging Face ")
        if healthy.name not in LEFT_OUT and (not is_published or name in PUBLISHED):
            found[healthy.name] = partial(_build_exhibit, healthy)
    for name in names_of_strangers(STRANGERS):
        found[f"{name} repaired"] = partial(_build_twin, name)
    for rule in rules():
        found[name_of_patient(rule)] = partial(_build_patient, rule)
    return found


def name_of_patient(rule: str) -> str:
    """What the well patient of a rule is called here; it is edited for the rule's certificate alone."""
    return f"well patient of {rule}"


def _build_patient(rule: str, seed: int) -> Specimen:
    patients = importlib.import_module(f"tests.contracts.rule_patients.{rule.replace('-', '_')}")
    with moved_seeds(seed):
        return patients.well()


def _build_exhibit(healthy: Healthy, seed: int) -> Specimen:
    with fixed_rng(seed):
        return healthy.build()


def _build_twin(name: str, seed: int) -> Specimen:
    stranger = load_stranger(STRANGERS, name)
    with fixed_rng(seed), moved_seeds(seed):
        return specimen_from(stranger.make_repaired, name)


@contextmanager
def moved_seeds(seed: int) -> Iterator[None]:
    """Inside, a program that sets torch's seed itself draws other numbers all the same."""
    original = torch.manual_seed
    torch.manual_seed = lambda number: original(number + 1000 * seed)
    try:
        yield
    finally:
        torch.manual_seed = original
