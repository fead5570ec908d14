"""All runs of a folder as they stand now, one of them in full, and what is new in one that is being trained."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from pellucid.errors import PellucidError, quoted
from pellucid.records import Finding, Health, Ladder, RunCard, Rung, TrainingReport, as_plain, from_plain
from pellucid.runs import LOGS, LogPlace, Run, find_writer, follow_log, holds_run, open_run
from pellucid.runs.folder import BASELINES, FINISHED, RECORD, log_path
from pellucid.runs.run import BASE, NAME

MOST_CURVE = 60  # points of a sparkline
# What of a run may be taken away, and as what.
RUN_FILES = {
    "report.html": "the report",
    "model.safetensors": "the weights",
    "vocabulary.json": "the vocabulary",
    "preparation.json": "how its data become numbers",
    "run.json": "what it was made with",
    "metrics.jsonl": "every step",
    "evaluations.jsonl": "losses on train and dev",
    "health.jsonl": "looks inside",
    "findings.jsonl": "what was found",
    "samples.jsonl": "samples on the way",
    "finished.json": "how it ended",
}


def run_folder(name: str, base: Path = BASE) -> Path:
    """The folder of a run by its name alone: nothing that could lead elsewhere is a name."""
    if not NAME.fullmatch(name) or not holds_run(base / name):
        raise PellucidError(f"there is no run called {quoted(name)}", fix="Choose one from the list of runs")
    return base / name


def list_runs(base: Path = BASE) -> list[RunCard]:
    """Every run of a folder, those that changed last first."""
    try:
        names = [entry.name for entry in os.scandir(base) if NAME.fullmatch(entry.name) and not entry.is_symlink()]
    except OSError:
        return []
    cards = [describe_run(base / name) for name in names if holds_run(base / name)]
    return sorted(cards, key=lambda card: (card.state != "running", -card.changed))


def describe_run(path: Path) -> RunCard:
    """A run in short. One that cannot be read is shown with what is wrong."""
    try:
        return _card(open_run(path))
    except PellucidError as error:
        return RunCard(path.name, "damaged", changed=_changed(path), problem=error.what)


def _card(run: Run) -> RunCard:
    evaluations, plan, network = run.evaluations, run.plan, run.record.get("network")
    ladder, own = _ladder(run), None
    if ladder is not None:
        own = next((rung for rung in ladder.rungs if not rung.is_counted), None) if run.is_finished else None
    measure = ladder.measure if ladder else None
    simple = ladder.best_count if ladder else None
    last = evaluations[-1] if evaluations else None
    loss = ladder.loss(own) if ladder and own else last.judged if last else None
    metric = own.metric if own else last.metric if last else None
    simple_loss = ladder.loss(simple) if ladder and simple else None
    return RunCard(
        run.name,
        state_of(run.path),
        run.kind,
        run.model,
        run.data.description,
        plan.size,
        int(network["parameters"]) if isinstance(network, dict) else 0,
        last.step if last else 0,
        plan.steps,
        loss,
        metric,
        measure.metric if measure else "",
        simple.name if simple else "",
        simple_loss,
        simple.metric if simple else None,
        measure.side if measure else "dev",
        measure.loss if measure else "nats",
        _is_ahead(metric, simple, loss, simple_loss),
        tuple(_thinned([one.judged for one in evaluations])),
        _changed(run.path),
    )


def _is_ahead(metric: float | None, simple: Rung | None, loss: float | None, simple_loss: float | None) -> bool | None:
    if simple is None:
        return None
    if metric is not None and simple.metric is not None:
        return metric > simple.metric
    return None if loss is None or simple_loss is None or math.isnan(simple_loss) else loss < simple_loss


def _ladder(run: Run) -> Ladder | None:
    return run.result.ladder if run.is_finished else run.baselines


def state_of(path: Path) -> str:
    """Whether a run is finished, being trained, or stopped."""
    if (path / FINISHED).is_file():
        return "finished"
    return "stopped" if find_writer(path) is None else "running"


def _changed(path: Path) -> float:
    times = []
    for name in (RECORD, FINISHED, "metrics.jsonl", "evaluations.jsonl"):
        try:
            times.append(os.stat(path / name).st_mtime)
        except OSError:
            continue
    return max(times, default=0.0)


def _thinned(values: list[float]) -> list[float]:
    finite = [value for value in values if math.isfinite(value)]
    step = max(1, math.ceil(len(finite) / MOST_CURVE))
    return finite[::-1][::step][::-1]


class RunFollower:
    """What a run's folder says, a piece at a time: everything at first, then what was added since.

    It only reads. A run that is gone on with takes back what it wrote after its checkpoint; then all is told anew.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._places: dict[str, LogPlace] = {}
        self._sizes: dict[str, int] = {}
        self._said: dict[str, Any] = {}
        self._looks: list[Health] = []
        self._unjudged: list[object] = []
        self._is_over = False

    def news(self) -> dict[str, Any]:
        """What is new, by name: logs as lists of records, state, plan, baselines; {} where nothing is.

        `is_anew` says that this is everything, and what was told before holds no longer; `is_over` that no more will
        come; `damage` what ails a log.
        """
        found = self._read_on()
        if found.get("is_anew"):
            self._places, self._sizes, self._said, self._looks, self._unjudged = {}, {}, {}, [], []
            found = self._read_on()
        if not self._said:
            found["is_anew"] = True
        if "replans" in found or not self._said:
            run = open_run(self.path)
            self._tell(found, "plan", as_plain(run.plan))
            self._tell(found, "run", describe_record(run))
            self._tell(found, "baselines", as_plain(_simple_ladder(run)))
        elif self._said["baselines"] is None and (self.path / BASELINES).is_file():
            # The folder is there a moment before what is written into it.
            self._tell(found, "baselines", as_plain(_simple_ladder(open_run(self.path))))
        # What looks inside mean is told with the next news: judging loads torch, and all else is worth seeing before.
        if self._unjudged and "health" not in found:
            self._tell(found, "health_findings", as_plain(self._judge()))
        self._unjudged += found.get("health", [])
        state = state_of(self.path)
        self._tell(found, "state", state)
        if state == "finished" and not self._unjudged and not self._is_over:
            self._is_over = True
            found |= {"state": state, "is_over": True}
        return found

    def _tell(self, found: dict[str, Any], name: str, value: Any) -> None:
        if self._said.get(name) != value or name not in self._said:
            self._said[name] = found[name] = value

    def _judge(self) -> list[Finding]:
        """What the looks inside mean, with those that came last; the others were read when they came."""
        from pellucid.inspection.judgements import judge_health

        looks, self._unjudged = self._unjudged, []
        try:
            self._looks += [from_plain(Health, look) for look in looks]
        except ValueError as error:
            raise PellucidError(f"health.jsonl is damaged: {error}", fix="Train the run again") from error
        return list(judge_health(self._looks))

    def _read_on(self) -> dict[str, Any]:
        """What the logs have that was not told yet."""
        found: dict[str, Any] = {}
        for log in LOGS:
            size = _size(log_path(self.path, log))
            if size == self._sizes.get(log, 0):
                continue
            before = self._places.get(log)
            part = follow_log(self.path, log) if before is None else follow_log(self.path, log, before)
            if before is not None and part.is_from_start:
                return {"is_anew": True}
            self._places[log], self._sizes[log] = part.end, part.end.n_bytes
            if part.records:
                found[log] = part.records
            if part.damage:
                found["damage"] = f"{log}.jsonl: {part.damage}"
        return found


def _simple_ladder(run: Run) -> Ladder | None:
    """The simple models of a run; of one that did not keep them, as its end has them."""
    ladder = run.baselines
    if ladder is None and run.is_finished:
        whole = run.report().ladder
        ladder = whole._replace(rungs=tuple(rung for rung in whole.rungs if rung.is_counted))
    return ladder


def _size(path: Path) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_size
    except OSError:
        return 0


def describe_whole(path: Path) -> dict[str, Any]:
    """A run in full: what it was made with, how it stands, and what it came to if it has ended."""
    run = open_run(path)
    return {
        "state": state_of(path),
        "run": describe_record(run),
        "plan": run.plan,
        "baselines": _simple_ladder(run),
        "ending": describe_ending(run) if run.is_finished else None,
    }


def describe_record(run: Run) -> dict[str, Any]:
    """What a run was made with, in the words of the terminal."""
    from pellucid.figures.words.training import data_lines, plan_lines
    from pellucid.records import NetworkFacts

    is_planned = isinstance(run.record.get("network"), dict)
    network = from_plain(NetworkFacts, run.record["network"]) if is_planned else None
    return {
        "name": run.name,
        "kind": run.kind,
        "model": run.model,
        "data": data_lines(run.data._replace(is_file=False)),  # it is read; there is no other way any more
        "plan": plan_lines(run.plan, network) if network and run.plan.steps else [],
        "parameters": network.parameters if network else 0,
        "symbols": run.data.symbols[:400],
        "first": [*run.data.first[:12], *(source for source, *_ in run.data.first_pairs[:12])],
        "command": [str(word) for word in run.record.get("command", [])],
        "depth": int(run.config.get("depth", 0) or 0),
        "heads": int(run.config.get("n_heads", 0) or 0),
    }


def describe_ending(run: Run) -> dict[str, Any]:
    """What a finished run came to: sentences, tables and the figures that can be drawn of it."""
    from pellucid.figures.tables import plain_table
    from pellucid.figures.words.answers import examples_table, metric_lines, metric_tables
    from pellucid.figures.words.counting import sample_table, tally
    from pellucid.figures.words.inspection import advice_words, finding_heading
    from pellucid.figures.words.ladder import accuracy_words, earned_words, ladder_table
    from pellucid.figures.words.training import ending_words, fit_words, forecast_words, headline_words, start_words

    report = run.report()
    answers = report.answers
    samples = tuple(report.samples)
    return {
        "headline": headline_words(report),
        "earned": "" if report.is_counted else earned_words(report.ladder),
        "verdict": fit_words(report),
        "verdict_name": report.verdict.name,
        "ending": ending_words(report.ending, report.evaluations, report.plan, report.rung.seconds),
        "start": start_words(report.start),
        "forecast": forecast_words(report),
        "accuracy": accuracy_words(report.ladder, report.rung),
        "has_tokens": run.kind in ("list", "text") and not report.is_counted,
        "ladder": plain_table(ladder_table(report.ladder)),
        "findings": [
            {
                **finding._asdict(),
                "heading": finding_heading(finding),
                "advice": advice_words(finding),
            }
            for finding in report.findings
        ],
        "samples": plain_table(sample_table(samples)) if samples and samples[0].where else None,
        "tally": tally(samples) if samples and samples[0].where else "",
        "texts": [sample.text for sample in samples if not sample.where],
        "answers": {
            "lines": [f"{line[:1].upper()}{line[1:]}." for line in metric_lines(answers, report.data)],
            "tables": [plain_table(table) for table in metric_tables(answers, report.network.name)],
            "examples": plain_table(examples_table(answers.examples[:30], report.data))
            if answers.examples and not any(one.pixels for one in answers.examples)
            else None,
        }
        if answers
        else None,
        "figures": run_figures(report),
        "files": [
            {"name": name, "what": what, "n_bytes": _size(run.path / name)}
            for name, what in RUN_FILES.items()
            if (run.path / name).is_file() and not (run.path / name).is_symlink()
        ],
    }


def run_figures(report: TrainingReport) -> dict[str, list[str]]:
    """The figures that can be drawn of a run, by where they belong."""
    if report.is_counted:
        return {"learning": ["ladder"], "inside": [], "mistakes": []}
    inside = ["gradient-norms"]
    if report.health:
        inside = ["layer-histograms", "unit-maps", "update-ratios", "gradient-norms"]
    answers = report.answers
    mistakes = []
    if answers:
        has_images = any(one.pixels for one in answers.examples)
        wanted = {
            "confusion": answers.confusion is not None and bool(answers.confusion.classes),
            "calibration": answers.calibration is not None and any(each.n for each in answers.calibration.bins),
            "regression": bool(answers.points),
            "reconstructions": any(one.pixels and one.answer_pixels for one in answers.examples),
            "mistakes": has_images and answers.confusion is not None,
            "latent": bool(answers.latent),
            "importances": bool(answers.importances),
        }
        mistakes = [name for name, is_there in wanted.items() if is_there]
    return {"learning": ["loss-curves", "ladder"], "inside": inside, "mistakes": mistakes}


def run_file(run: Path, name: str) -> Path:
    """A file of a run that may be taken away; anything else is not there."""
    path = run / name
    if name not in RUN_FILES or path.is_symlink() or not path.is_file():
        raise PellucidError(f"{run.name} has no file {quoted(name)}", fix="Choose one from its list")
    return path
