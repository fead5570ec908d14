"""The ledger of claims: list it, run some or all of it again, or ask one of your own data."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pellucid.api.results import write_output
from pellucid.claims.claim import all_families, describe_method, find_claim
from pellucid.claims.judging import read_knobs
from pellucid.claims.running import Done, chosen_ids, run_ledger, stored_ledger, write_ledger
from pellucid.errors import PellucidError, require_one_of
from pellucid.records import VERDICTS, ClaimResult, Ledger


def list_claims(family: str = "", verdict: str = "", search: str = "") -> Ledger:
    """The stored results; of one family, with one verdict, or with all of these words in them."""
    if family:
        require_one_of("family", family, all_families())
    if verdict:
        require_one_of("verdict", verdict, VERDICTS)
    words = search.casefold().split()
    kept = tuple(
        one
        for one in stored_ledger().results
        if family in ("", one.family) and verdict in ("", one.verdict) and all(word in _searched(one) for word in words)
    )
    return Ledger(kept)


def _searched(result: ClaimResult) -> str:
    return " ".join([result.id, *result.covers, result.statement, result.where, result.family]).casefold()


def find_result(name: str) -> ClaimResult:
    """The stored result of a claim, by its id or one that it covers, with how it was tested."""
    family, claim = find_claim(name)
    found = next((one for one in stored_ledger().results if one.id == claim.id), None)
    if found is None:
        raise PellucidError(f"{claim.id} has no stored result", fix=f"Run it: pellucid claims run {claim.id}")
    return replace(found, method=describe_method(family, claim))


def run_claims(
    names: Sequence[str],
    *,
    knobs: Mapping[str, str] | None = None,
    seeds: int | None = None,
    data: str | None = None,
    journal: Path | None = None,
    store: Path | None = None,
    jobs: int = 0,
    minutes: float | None = None,
    on_done: Done = lambda result, n, of: None,
) -> Ledger:
    """Run claims by their ids, families or `all`. With `data`, those that can be asked of it are.

    journal: what it holds is not run again, and each result is added to it. minutes: after them no claim is begun.
    """
    if not names:
        raise PellucidError("no claim is named", fix="Name an id, a family, or all")
    if seeds is not None and not 1 <= seeds <= 1000:
        raise PellucidError(f"the number of seeds is {seeds}", fix="Choose one from 1 to 1,000")
    if minutes is not None and not 0 < minutes < 10_000:
        raise PellucidError(f"{{minutes}} is {minutes:g}", fix="Give a number above 0", options={"minutes": None})
    ids = chosen_ids(names)
    given: dict[str, Any] = {}
    for name in ids:
        _, claim = find_claim(name)
        if data is not None and not claim.takes_data:
            asked = [one for one in ids if find_claim(one)[1].takes_data]
            raise PellucidError(
                f"{claim.id} cannot be asked of data",
                fix=f"Name one that can, such as {asked[0]}" if asked else "Leave {data} out",
                options={"data": None},
            )
        given = read_knobs(claim, knobs or {})
    if data is not None:
        given["data"] = data
    seconds = math.inf if minutes is None else 60 * minutes
    ledger = run_ledger(ids, given, seeds, journal, jobs or os.cpu_count() or 1, on_done, seconds)
    if store:
        write_ledger(store, ledger)
    return ledger


def expected_seconds(names: Sequence[str]) -> dict[str, float]:
    """How long each claim took when it was stored, by its id; 0 where it never was."""
    stored = {one.id: one.seconds for one in stored_ledger().results}
    return {name: stored.get(name, 0.0) for name in chosen_ids(names)}


def write_ledger_page(ledger: Ledger, path: Path) -> None:
    """The ledger as one page that opens without a network."""
    from pellucid.figures.claims_page import ledger_html

    titles = {name: family.title for name, family in all_families().items()}
    write_output(path, ledger_html(ledger, titles))


def draw_claim(result: ClaimResult, path: Path) -> None:
    """The picture of a claim: its numbers, or its margin along the knob that it turns on."""
    from pellucid.figures.claims_page import draw_claim_result
    from pellucid.figures.picture import picture_file

    write_output(path, picture_file(draw_claim_result(result), path.suffix.lower()))
