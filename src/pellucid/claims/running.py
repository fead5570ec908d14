"""Running many claims: several at once, each written down as it comes, so that a killed run goes on where it was."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from pellucid import __version__
from pellucid.claims.claim import all_claims, all_families, find_claim
from pellucid.claims.judging import require_knobs, run_claim
from pellucid.errors import PellucidError, require_one_of
from pellucid.figures import Shown
from pellucid.records import ClaimResult, Ledger, as_plain, from_plain
from pellucid.runs.disk import write_whole
from pellucid.training.workers import WorkerOptions, run_pieces

STORED = "ledger"  # a folder with one file for each family
Done = Callable[[ClaimResult, int, int], None]  # a result, how many there are now, and of how many


@cache
def stored_ledger() -> Ledger:
    """The results that come with the package, in the order of families."""
    folder = resources.files("pellucid.claims").joinpath(STORED)
    files = sorted([file for file in folder.iterdir() if file.name.endswith(".json")], key=lambda file: file.name)
    rows = [row for file in files for row in json.loads(file.read_text(encoding="utf-8"))]
    return Ledger(tuple(from_plain(ClaimResult, row) for row in rows))


def chosen_ids(names: Sequence[str]) -> list[str]:
    """The claims that are meant by ids, families or `all`, each once."""
    families, claims = all_families(), all_claims()
    if "all" in names:
        return list(claims)
    found: dict[str, None] = {}
    for name in names:
        if name in families:
            found |= dict.fromkeys([claim.id for claim in families[name].claims])
        else:
            covered = {other for _, claim in claims.values() for other in claim.covers}
            require_one_of("claim or family", name, {*claims, *covered, *families})
            found[find_claim(name)[1].id] = None
    return list(found)


def run_ledger(
    ids: Sequence[str],
    knobs: Mapping[str, Any],
    seeds: int | None,
    journal: Path | None,
    workers: WorkerOptions | None = None,
    on_done: Done = lambda result, n, of: None,
    seconds: float = math.inf,
) -> Ledger:
    """Run claims and compare them with what is stored. What the journal holds already is not run again.

    seconds: after them no further claim is begun, and the ledger has those that are done. workers: how many at once,
    and where; None: one after another, in this process.
    """
    done = _read_journal(journal, knobs, seeds) if journal else {}
    known = [done[name] for name in ids if name in done]
    todo = [name for name in ids if name not in done]
    found = {one.id: one for one in known}
    before = stored_ledger().results
    broken: dict[str, Exception] = {}
    for name, result in _run(todo, knobs, seeds, workers, time.monotonic() + seconds):
        if isinstance(result, Exception):
            broken[name] = result
            continue
        found[name] = result
        if journal:
            _append(journal, result)
        on_done(result, len(found), len(ids))
    refused = {name: error for name, error in broken.items() if isinstance(error, PellucidError)}
    for name, error in broken.items():  # after all others, which are in the journal
        if not found or name not in refused:
            error.add_note(f"claim {name}, one of {len(broken)} that broke: {', '.join(broken)}")
            raise error
    stored = {one.id: one.verdict for one in before}
    results = tuple(found[name] for name in ids if name in found)
    is_same = not knobs
    changed = {one.id: stored[one.id] for one in results if stored.get(one.id, one.verdict) != one.verdict and is_same}
    return Ledger(results, changed, {name: str(error) for name, error in refused.items()})


def _run(
    ids: Sequence[str],
    knobs: Mapping[str, Any],
    seeds: int | None,
    workers: WorkerOptions | None,
    deadline: float,
) -> Iterator[tuple[str, ClaimResult | Exception]]:
    """Each result, or what stopped it, as it comes. deadline: by the monotonic clock, after which none is begun."""
    if workers is not None and workers.on == "ray":
        pieces = [(name, knobs, seeds) for name in ids]
        for number, result in run_pieces(_try, pieces, workers, deadline=deadline):
            yield ids[number], result
        return
    n_workers = workers.n_at_once(len(ids)) if workers and ids else 1
    if n_workers == 1:
        yield from ((name, _try(name, knobs, seeds)) for name in ids if time.monotonic() < deadline)
        return
    import multiprocessing

    # A family stays in one process, for its claims share trainings; the longest come first, so that none is waited for.
    families = sorted(_by_family(ids), key=lambda family: sum(family.values()))
    if len(families) < n_workers:
        families = [{name: seconds} for family in families for name, seconds in family.items()]
        families.sort(key=lambda family: sum(family.values()))
    with ExitStack() as stack:
        # Spawned, not forked: a forked process inherits threads of torch that are not there.
        spawned = multiprocessing.get_context("spawn")
        pools = [stack.enter_context(ProcessPoolExecutor(1, spawned)) for _ in range(min(n_workers, len(families)))]
        left: list[list[str]] = [[] for _ in pools]
        waiting: dict[Future[ClaimResult | Exception], tuple[str, int]] = {}

        def begin_next(worker: int) -> None:
            if not left[worker] and families:
                left[worker] = list(families.pop())
            if left[worker] and time.monotonic() < deadline:
                name = left[worker].pop(0)
                waiting[pools[worker].submit(_try, name, knobs, seeds)] = name, worker

        for worker in range(len(pools)):
            begin_next(worker)
        while waiting:
            ended, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in ended:
                name, worker = waiting.pop(future)
                begin_next(worker)
                yield name, future.result()


def _by_family(ids: Sequence[str]) -> list[dict[str, float]]:
    """The claims of each family, with the seconds that they took when they were stored."""
    claims, took = all_claims(), {one.id: one.seconds for one in stored_ledger().results}
    families: dict[str, dict[str, float]] = {}
    for name in ids:
        families.setdefault(claims[name][0].name, {})[name] = took.get(name, 0.0)
    return list(families.values())


def _try(name: str, knobs: Mapping[str, Any], seeds: int | None) -> ClaimResult | Exception:
    """A claim that breaks must not cost the results of the others."""
    try:
        return run_named(name, knobs, seeds)
    except Exception as error:
        return error


def run_named(name: str, knobs: Mapping[str, Any], seeds: int | None) -> ClaimResult:
    """The claim of that id. A separate function, so that another process can be asked for it."""
    family, claim = find_claim(name)
    with _one_thread():
        try:
            return run_claim(family, claim, knobs, seeds)
        except PellucidError as error:
            # A claim lets nobody set the kind of its data.
            error.fix = error.fix.replace("Try {kind}", "Give it data of that kind").replace(
                "; or read it as {kind}", ""
            )
            raise


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread for torch and NumPy: the same sums in the same order, whether one claim runs or several at once."""
    torch = sys.modules.get("torch")
    chosen = os.environ.get("OMP_NUM_THREADS")
    before = torch.get_num_threads() if torch else int(chosen or os.cpu_count() or 1)
    os.environ["OMP_NUM_THREADS"] = "1"  # is read when torch is loaded, which only claims that need it do
    if torch:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if chosen is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = chosen
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(before)


class ClaimRun(Shown[ClaimResult]):
    """A claim that was run: it prints its numbers, and in a notebook draws itself."""

    def _repr_svg_(self) -> str:
        from pellucid.figures.claims_page import draw_claim_result

        return draw_claim_result(self.record).svg


def run(name: str, *, seeds: int | None = None, **knobs: Any) -> ClaimRun:
    """One claim, here and now, with its knobs as parameters.

    >>> run("dice-expected-49-24").verdict
    'holds'
    >>> run("dice-expected-49-24", sides=8).verdict
    'fails'
    """
    require_knobs(find_claim(name)[1], knobs)
    return ClaimRun(run_named(name, knobs, seeds))


def write_ledger(folder: Path, ledger: Ledger) -> None:
    """The results of each family as one JSON file, a line for each claim; claims that were not run stay as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    families = all_families()
    for name in dict.fromkeys([one.family for one in ledger.results]):
        file = folder / f"{name}.json"
        rows = {row["id"]: row for row in json.loads(file.read_text(encoding="utf-8"))} if file.exists() else {}
        rows |= {one.id: as_plain(one) for one in ledger.results if one.family == name}
        kept = [rows[claim.id] for claim in families[name].claims if claim.id in rows]
        lines = [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in kept]
        write_whole(file, ("[\n" + ",\n".join(lines) + "\n]\n").encode())


def _append(journal: Path, result: ClaimResult) -> None:
    journal.parent.mkdir(parents=True, exist_ok=True)
    with journal.open("a", encoding="utf-8") as file:
        file.write(json.dumps(as_plain(result), ensure_ascii=False, allow_nan=False) + "\n")


def _read_journal(journal: Path, knobs: Mapping[str, Any], seeds: int | None) -> dict[str, ClaimResult]:
    """Results of the same knobs, seeds and version; a line that was cut off by a kill is passed over."""
    found: dict[str, ClaimResult] = {}
    try:
        lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
    except (OSError, UnicodeDecodeError) as error:
        raise PellucidError(f"{journal} could not be read: {error}", fix="Remove it, or name another") from error
    claims = all_claims()
    for line in lines:
        try:
            result = from_plain(ClaimResult, json.loads(line))
        except ValueError:
            continue
        if result.id not in claims:
            continue
        wanted = claims[result.id][1].seeds if seeds is None or claims[result.id][1].seeds == 1 else seeds
        is_same = result.version == __version__ and dict(result.knobs) == dict(knobs)
        if is_same and result.seeds in (wanted, 0):
            found[result.id] = result
    return found
