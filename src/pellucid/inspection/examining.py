"""The doctor over someone's file: what the child of `loading` does, and what comes back from it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pellucid.inspection.doctor import diagnose
from pellucid.inspection.given import patient_from
from pellucid.inspection.their_code import found_in, in_their_words
from pellucid.records import as_plain


def examine(job: Mapping[str, Any]) -> object:
    """The diagnosis of what a file has under a name, as plain values.

    job: file, name, batch (a file of tensors, or ""), loss (the name of one, or ""), rules and seed.
    """
    path, name = Path(job["file"]), str(job["name"])
    found = found_in(path, name)
    with in_their_words(path):
        patient = patient_from(found.value, name, str(job["batch"]), str(job["loss"]))
        diagnosis = diagnose(patient, list(job["rules"]), int(job["seed"]))
    mended = [f"{path.name} was read as if mended: {mistake}" for mistake in found.mistakes]
    return as_plain(diagnosis._replace(notes=(*mended, *diagnosis.notes)))
