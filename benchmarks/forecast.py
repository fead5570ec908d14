"""How right the forecast is: what a run of N steps says of runs of 2, 4 and 8 N, beside what those reached.

    python benchmarks/forecast.py [--folder FOLDER] [--part choose|unseen] [--only NAME,NAME] [--show]

FOLDER holds packages and files as benchmarks/own_data.py has them. Of long lists and texts a part is taken, most
networks are tiny, and all have one thread, so that it takes about an hour of one core. Each training is one line of
FOLDER/forecast.jsonl: what is there is not trained again, and --show only tells what it holds. The bounds of the
forecast were chosen on one part; the other is the check.
"""

import argparse
import json
import math
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

from outside import ITEMS, PARTS, Item, Packages
from pellucid.records import Ending, Evaluation, Ladder, Rung
from pellucid.training.forecast import MOST, NOTHING, forecast_more_steps
from pellucid.training.stopping import best_evaluation, check_ending, judge_fit

ROOT = Path(__file__).resolve().parent.parent
LONGEST_TEXT, LONGEST_LIST = 400_000, 12_000  # characters and items
EVALUATED = 5_000  # predictions of dev
FIRST_STEPS = {"list": 100, "text": 100, "table": 75}
TIMES = (1, 2, 4, 8)
TINY, ALONE = {"size": "tiny"}, {"size": "tiny", "start": "scratch"}
SMALL = {"size": "small"}
TRAININGS: Sequence[tuple[str, Mapping[str, str]]] = (
    *((name, SMALL) for name in ("drugs", "turkish_names", "icelandic_names", "us_counties", "chemical_names")),
    *((name, TINY) for name in ("smiles", "folk_tunes", "javascript", "english_words", "german_jobs", "c_headers")),
    *((name, TINY) for name in ("jargon", "domain_suffixes", "sql_scripts")),
    *((name, ALONE) for name in ("chemical_names", "javascript", "english_words")),
    *((name, {}) for name in ("german_credit", "abalone", "diabetes", "spam", "diamonds")),
    *((name, TINY) for name in ("pokemon", "emoji_names", "ukrainian_words", "passwords", "us_constitution")),
    *((name, TINY) for name in ("german_quotes", "mime_json", "spanish_proverbs")),
    *((name, ALONE) for name in ("cities", "python_source")),
    *((name, {}) for name in ("titanic", "auto_mpg", "letters", "computers", "bikeshare")),
)


class Trained(NamedTuple):
    """One training."""

    name: str
    setting: Mapping[str, str]
    steps: int
    evaluations: Sequence[Evaluation]
    ending: Ending


class Checked(NamedTuple):
    """What one run said of a longer one."""

    name: str
    steps: int
    times: float
    low: float
    high: float
    usual: float
    gained: float
    unknown: str

    @property
    def is_inside(self) -> bool:
        return self.low <= self.gained <= self.high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "out" / "own-data", help="packages, data and results")
    parser.add_argument("--part", choices=("choose", "unseen"), help="items of this part")
    parser.add_argument("--only", default="", metavar="NAME,NAME", help="these items")
    parser.add_argument("--show", action="store_true", help="train nothing")
    options = parser.parse_args()
    results = options.folder / "forecast.jsonl"
    for name, setting in TRAININGS if not options.show else ():
        if options.part in (None, PARTS[name]) and (not options.only or name in options.only.split(",")):
            train_all(ITEMS[name], setting, options.folder, results)
    for part in ("choose", "unseen"):
        tell(part, list(check(read_trained(results, part))))


def train_all(item: Item, setting: Mapping[str, str], folder: Path, results: Path) -> None:
    """Train with each number of steps that is not there yet."""
    known = {(one.name, tuple(one.setting.items()), one.steps) for one in read_trained(results, PARTS[item.name])}
    first = 150 if setting == SMALL else FIRST_STEPS[item.kind]
    todo = [n for n in [first * times for times in TIMES] if (item.name, tuple(setting.items()), n) not in known]
    packages = Packages(folder.resolve())
    if todo and (missing := item.missing(packages)):
        print(f"{item.name}: skipped, {', '.join(missing)} not found in {packages.root}")
        return
    task = None
    for n_steps in todo:
        from pellucid.api.train import request_training
        from pellucid.training import plan as planning
        from pellucid.training.loop import steps
        from pellucid.training.tasks import open_task
        from pellucid.training.trainer import build_training

        planning.EVALUATED = EVALUATED
        given: dict[str, Any] = {"kind": item.kind, "threads": 1, "steps": n_steps, **setting}
        given |= {"target": item.target, "folds": 0} if item.target else {}
        request = request_training(str(short_file(item, packages)), given)
        task = task or open_task(request.reading, request.data)
        card = task.find_card(request.trainings[0].model)
        config, plan = planning.choose_plan(card, task, request.trainings[0])
        state = build_training(card, config, plan, task)
        seen: list[Evaluation] = []

        def evaluate(step: int, state: Any = state, seen: list[Evaluation] = seen) -> None:
            train, dev = (state.task.evaluate_for(state.model, side, state.plan) for side in ("train", "dev"))
            seen.append(Evaluation(step, train.loss, dev.loss, dev.metric))

        evaluate(0)
        ending = None
        for step in steps(state.model, state.batches, state.optimizer, plan, loss_function=task.loss_function(plan)):
            if step.step == plan.steps or step.step % plan.evaluate_every == 0:
                evaluate(step.step)
                ending = check_ending(seen, plan)
            if ending:
                break
        assert ending is not None
        line = {"name": item.name, "setting": setting, "steps": n_steps, "evaluations": seen}
        line["ending"] = ending._asdict()
        with results.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{item.name} {n_steps}: {best_evaluation(seen).dev:.4f}", flush=True)


def short_file(item: Item, packages: Packages) -> Path:
    """The file of an item, or a part of it that is soon read."""
    if not item.path(packages.root).exists():
        item.write(packages)
    short = packages.root / "data" / "short" / item.path(packages.root).name
    if item.kind not in ("list", "text"):
        return item.path(packages.root)
    short.parent.mkdir(parents=True, exist_ok=True)
    text = item.path(packages.root).read_text(encoding="utf-8")
    if item.kind == "list":
        lines = text.splitlines()
        text = "\n".join(lines[:: max(1, len(lines) // LONGEST_LIST)]) + "\n"
    short.write_text(text[:LONGEST_TEXT] if item.kind == "text" else text, encoding="utf-8")
    return short


def read_trained(results: Path, part: str) -> list[Trained]:
    """The trainings of a part, of equals the last."""
    found = {}
    for line in results.read_text().splitlines() if results.exists() else ():
        read = json.loads(line)
        if PARTS[read["name"]] == part:
            key = (read["name"], json.dumps(read["setting"]), read["steps"])
            evaluations = [Evaluation(*one) for one in read["evaluations"]]
            found[key] = Trained(*key[:1], read["setting"], read["steps"], evaluations, Ending(**read["ending"]))
    return list(found.values())


def check(trained: Sequence[Trained]) -> Iterator[Checked]:
    """Every run beside all longer ones of the same network on the same data."""
    for short in trained:
        kept = best_evaluation(short.evaluations)
        network = Rung("network", False, 0, kept.train, kept.dev, None, math.nan, 0.0, None)
        verdict = judge_fit(short.evaluations, short.ending)
        forecast = forecast_more_steps(short.evaluations, verdict, Ladder("", (network,)))
        for long in trained:
            if (long.name, long.setting) == (short.name, short.setting) and long.steps > short.steps:
                times = long.steps / short.steps
                _, usual, high = (each * math.log2(times) for each in forecast.doubled)
                gained = kept.dev - best_evaluation(long.evaluations).dev
                # "Nothing" is what cannot be told from nothing.
                low = -NOTHING * min(1.0, abs(kept.dev))
                yield Checked(short.name, short.steps, times, low, high, usual, gained, forecast.unknown)


def tell(part: str, checked: Sequence[Checked]) -> None:
    told = [one for one in checked if not one.unknown]
    if not told:
        return
    names = {one.name for one in told}
    print(f"\n{part}: {len(names)} sets of data; a doubling brings 0 to {MOST:g} times what the second half brought")
    for times in sorted({one.times for one in told}):
        of_times = [one for one in told if one.times == times]
        inside = sum(one.is_inside for one in of_times)
        above = sum(one.gained > one.high for one in of_times)
        ratio = statistics.median(one.gained / one.usual for one in of_times)
        print(
            f"  {times:g} times the steps: {inside} of {len(of_times)} inside, {above} above, "
            f"{len(of_times) - inside - above} below; the median gain is {ratio:.2f} of what is usual"
        )
    inside = sum(one.is_inside for one in told)
    print(f"  all: {inside} of {len(told)} inside ({100 * inside / len(told):.0f} %)")
    for reason in sorted({one.unknown for one in checked} - {""}):
        gains = [one.gained for one in checked if one.unknown == reason]
        print(f"  not told, {reason}: {len(gains)}, where more steps brought {min(gains):+.4f} to {max(gains):+.4f}")
    for one in told:
        if not one.is_inside:
            print(f"    outside: {one.name} {one.steps} × {one.times:g}: {one.gained:+.4f}, said 0 to {one.high:.4f}")


if __name__ == "__main__":
    main()
