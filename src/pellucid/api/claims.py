"""The ledger of claims: list it, run some or all of it again, or ask one of your own data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pellucid.api.results import write_output
from pellucid.claims.claim import all_families, describe_method, find_claim
from pellucid.claims.judging import read_knobs
from pellucid.claims.running import Done, chosen_ids, run_ledger, stored_ledger, write_ledger
from pellucid.data.options import DataOptions, open_with
from pellucid.data.splits import DIVIDING
from pellucid.errors import PellucidError, require_one_of
from pellucid.records import VERDICTS, ClaimResult, Ledger
from pellucid.training.workers import WorkerOptions


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
    strategy: str = "",
    group: str = "",
    order: str = "",
    journal: Path | None = None,
    store: Path | None = None,
    workers: WorkerOptions | None = None,
    minutes: float | None = None,
    on_done: Done = lambda result, n, of: None,
    on_division: Callable[[str], None] = lambda sentence: None,
) -> Ledger:
    """Run claims by their ids, families or `all`. With `data`, those that can be asked of it are.

    strategy, group, order: how the rows of a table are divided, as of `train`; by default as suits them.
    journal: what it holds is not run again, and each result is added to it. minutes: after them no claim is begun.
    workers: claims at once, and where; None: one after another, in this process.
    """
    if not names:
        raise PellucidError("no claim is named", fix="Name an id, a family, or all")
    if seeds is not None and not 1 <= seeds <= 1000:
        raise PellucidError(f"the number of seeds is {seeds}", fix="Choose one from 1 to 1,000")
    if minutes is not None and not 0 < minutes < 10_000:
        raise PellucidError(f"{{minutes}} is {minutes:g}", fix="Give a number above 0", options={"minutes": None})
    ids = chosen_ids(names)
    if data is not None:
        ids = _ask_of_data(ids, names)
    given: dict[str, Any] = {}
    division = {name: word for name, word in zip(DIVIDING, (strategy, group, order), strict=True) if word}
    if division and data is None:
        raise PellucidError(
            f"{{{next(iter(division))}}} says how data of yours are divided, and none are named",
            fix="Name them with {data}",
            options={**dict.fromkeys(division), "data": None},
        )
    for name in ids:
        _, claim = find_claim(name)
        if division and not claim.takes_division:
            raise PellucidError(
                f"{{{next(iter(division))}}} changes nothing for {claim.id}, which trains on no rows of a table",
                fix="Leave it out",
                options=dict.fromkeys(division),
            )
        given = read_knobs(claim, {**(knobs or {}), **division})
    if data is not None:
        given["data"] = data
        if any(find_claim(name)[1].takes_division for name in ids):
            asked_of = DataOptions(data, strategy=strategy, group=group, order=order, target=given.get("target", ""))
            for sentence in _division_sentences(asked_of):
                on_division(sentence)
    seconds = math.inf if minutes is None else 60 * minutes
    ledger = run_ledger(ids, given, seeds, journal, workers, on_done, seconds)
    if store:
        write_ledger(store, ledger)
    return ledger


def _division_sentences(options: DataOptions) -> list[str]:
    """How the rows of a table are divided, and why; nothing where that is by hash, as is usual, or of other data."""
    from pellucid.data import TableData
    from pellucid.data.prepare.table_examples import table_sides
    from pellucid.figures.words.splitting import choice_sentences

    opened = open_with(options)
    if not isinstance(opened, TableData):
        return []
    choice = table_sides(opened, options.target, split=options.split).split
    return choice_sentences(choice) if choice else []


def _ask_of_data(ids: Sequence[str], names: Sequence[str]) -> list[str]:
    """Those of a family that can be asked of data; a claim that is named and cannot is refused."""
    can = [name for name in ids if find_claim(name)[1].takes_data]
    cannot = [name for name in ids if name not in can and (name in names or not can)]
    if cannot:
        raise PellucidError(
            f"{cannot[0]} cannot be asked of data",
            fix=f"Name one that can, such as {can[0]}" if can else "Leave {data} out",
            options={"data": None},
        )
    return can


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
