"""What a training on one item reached, as one line of JSON, and how it is judged."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pellucid.records import Ladder, Rung, from_plain

VERDICTS = ("ahead", "level", "behind", "not known")


@dataclass(frozen=True)
class Result:
    """One training with the defaults. A failed one has its reason and none of the numbers after it."""

    name: str
    minutes: float  # that were asked for
    seconds: float  # that it took, from the start of the process to its end
    cpu_seconds: float  # of all its threads
    peak_bytes: int  # of memory
    package: str  # each with its version
    rows: int = 0  # of a text 0
    tokens: int = 0
    columns: int = 0
    classes: int = 0
    jobs: int = 1  # trainings at once
    cores: int = 1
    reason: str = ""  # of a failure
    threads: int = 1
    model: str = ""
    size: str = ""
    parameters: int = 0
    metric: str = ""  # "": judged by nats a token, where less is better
    task: str = ""  # that was inferred of a table
    network: tuple[float | None, float | None] = (None, None)  # on dev and test, by the metric or in nats
    simple: tuple[float | None, float | None] = (None, None)  # the best simple model on dev
    simple_name: str = ""
    gains: tuple[tuple[str, float, float, float, int], ...] = ()  # side, mean, low and high of 95 %, how many compared
    steps: int = 0
    planned: int = 0
    epochs: float = 0.0
    learning_share: float = 0.0  # of the seconds, those inside steps
    ended: str = ""  # why: budget, plateau or over-fit

    @property
    def verdict(self) -> str:
        """Ahead where dev and test both are beyond their intervals, behind where one is and the other is not ahead."""
        said = ["ahead" if low > 0 else "behind" if high < 0 else "level" for _, _, low, high, _ in self.gains]
        if self.reason or not said:
            return "not known"
        if set(said) == {"ahead"}:
            return "ahead"
        return "behind" if "behind" in said and "ahead" not in said else "level"

    @property
    def over(self) -> float:
        """The share of the budget by which it was missed; below 0 where the run ended early."""
        return self.seconds / (60 * self.minutes) - 1

    @property
    def is_in_time(self) -> bool:
        return self.over <= 0.1


def reached(report: Mapping[str, Any], run: Path) -> dict[str, Any]:
    """The numbers of a result, from what `pellucid train --json` printed and the logs of its run."""
    plan, data, step = report["plan"], report["data"], report["ending"]["step"]
    rungs = [{key: rung[key] for key in Rung._fields} for rung in report["ladder"]["rungs"]]
    ladder = from_plain(Ladder, {**report["ladder"], "rungs": rungs})
    network = next(rung for rung in ladder.rungs if not rung.is_counted)
    simple, metric = ladder.best_count, ladder.measure.metric
    one_epoch = data["items"]["train"] or data["n_tokens"]["train"] / max(1, plan["context"])
    return {
        "threads": report["threads"],
        "model": network.name,
        "size": plan["size"],
        "parameters": network.parameters,
        "metric": metric,
        "task": data["task"],
        "network": both_sides(network, metric),
        "simple": both_sides(simple, metric) if simple else (None, None),
        "simple_name": simple.name if simple else "",
        "gains": tuple(tuple(gain) for gain in network.gains if all(map(math.isfinite, gain[1:]))),
        "steps": step,
        "planned": plan["steps"],
        "epochs": step * plan["batch_size"] / max(1, one_epoch),
        "seconds_in_steps": seconds_in_steps(report, run),
        "ended": report["ending"]["reason"],
    }


def both_sides(rung: Rung, metric: str) -> tuple[float | None, float | None]:
    """What a rung reached on dev and test; None where that was not read, or is not finite."""
    dev, test = (rung.metric, rung.test_metric) if metric else (rung.dev, rung.test)
    dev, test = (side if side is not None and math.isfinite(side) else None for side in (dev, test))
    return dev, test


def seconds_in_steps(report: Mapping[str, Any], run: Path) -> float:
    """Tokens that all steps learned from, over how many of them a second of steps took."""
    log = run / "metrics.jsonl"
    if not report["timings"] or not log.exists():
        return 0.0
    n_tokens = sum([json.loads(line)["n_tokens"] for line in log.read_text().splitlines()])
    return float(n_tokens / max(report["timings"][-1]["tokens_per_second"], 1e-9))


def read_results(path: Path, minutes: float) -> dict[str, Result]:
    """The last result of each name with so many minutes."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines]
    known = {field.name for field in fields(Result)}
    results = [Result(**{key: value for key, value in one.items() if key in known}) for one in found]
    return {one.name: one for one in results if one.minutes == minutes}


def append_result(path: Path, result: Result) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(result), ensure_ascii=False) + "\n")
