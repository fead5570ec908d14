"""Data before they are trained on: what was inferred and why, how they divide, and the plan with its time."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pellucid.api.train import TrainRequest, request_training
from pellucid.data import TableData, datasets
from pellucid.data.kinds import IMAGE_ENDINGS
from pellucid.errors import PellucidError
from pellucid.models.catalogue import networks_for
from pellucid.options import options_of
from pellucid.records import DatasetFacts

DATA_ENDINGS = (".txt", ".csv", ".tsv", ".parquet", ".jsonl", ".json", ".md", ".arrow", ".feather")
MOST_LISTED = 200
MOST_PROPOSED = 8  # columns of a table that are tried, until one can be predicted
MOST_LOOKED_AT = 40  # things in a folder, to see whether it holds images; it is asked every few seconds
SPLIT_KINDS = ("list", "table", "pairs")
READING_CHOICES = ("kind", "tokens", "task", "image_size", "colour")
CHOICES = ("minutes", "steps", "size", "seed", "learning_rate", "batch_size", "optimizer", "schedule", "start")


def list_data(folder: Path, dropped: Path) -> list[DatasetFacts]:
    """What there is to train on: files of a folder, what was dropped, and the sets that come with pellucid."""
    found = [DatasetFacts(name, card.kind, card.summary, "comes") for name, card in datasets().items()]
    return [*_data_of(folder, "folder"), *_dropped(dropped), *found]


def _data_of(folder: Path, where: str) -> list[DatasetFacts]:
    return [*_files_of(folder, where), *_image_folders(folder, where)][:MOST_LISTED]


def _files_of(folder: Path, where: str) -> list[DatasetFacts]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return []
    return [
        DatasetFacts(entry.name, "", "", where, entry.stat().st_size)
        for entry in entries
        if entry.is_file(follow_symlinks=False)
        and not entry.name.startswith(".")
        and entry.name.lower().endswith(DATA_ENDINGS)
    ][:MOST_LISTED]


def _image_folders(folder: Path, where: str) -> list[DatasetFacts]:
    """Folders of class folders, by the names of what is in them; nothing is opened."""
    summary = f"images in class folders, {'dropped here' if where == 'dropped' else 'in this folder'}"
    return [
        DatasetFacts(one.name, "images", summary, where)
        for one in _look_into(folder, MOST_LISTED)
        if sum(_holds_images(Path(inner)) for inner in _look_into(Path(one))[:3]) >= 2
    ]


def _holds_images(folder: Path) -> bool:
    return any(one.is_file() and one.name.lower().endswith(IMAGE_ENDINGS) for one in _look_into(folder))


def _look_into(folder: Path, most: int = MOST_LOOKED_AT) -> list[os.DirEntry[str]]:
    """The first things in a folder that are neither hidden nor links; none where it is no folder."""
    try:
        with os.scandir(folder) as entries:
            shown = (one for one in entries if not one.name.startswith(".") and not one.is_symlink())
            return sorted(itertools.islice(shown, most), key=lambda one: (one.is_file(), one.name))
    except OSError:
        return []


def _dropped(folder: Path) -> list[DatasetFacts]:
    """What was dropped last; of however many, only as many are looked into as are listed."""
    try:
        inner = sorted(os.scandir(folder), key=lambda entry: -entry.stat().st_mtime)
    except OSError:
        return []
    newest = (
        one._replace(name=f"{entry.name}/{one.name}")
        for entry in inner
        if not entry.name.startswith(".")
        for one in _data_of(Path(entry), "dropped")
    )
    return list(itertools.islice(newest, MOST_LISTED))


def find_source(where: str, name: str, folder: Path) -> str:
    """What `train` is given for data that were picked from the list; nothing that is not in the list is ever opened."""
    if where == "comes" and name in datasets():
        return name
    if where == "folder" and any(one.name == name for one in _data_of(folder, "folder")):
        return str(folder / name)
    raise PellucidError("those data are not in the list", fix="Pick some that are, or drop a file")


def train_choices() -> list[dict[str, Any]]:
    """What may be asked of a training on the page: the options that the terminal's --help shows first.

    is_reading: whether it decides how the data are read, so that what they are is told anew.
    """
    from pellucid.data.options import DataOptions
    from pellucid.training.options import TrainOptions

    return [*_choices_of(DataOptions, READING_CHOICES), *_choices_of(TrainOptions, CHOICES)]


def _choices_of(config: type, names: Sequence[str]) -> list[dict[str, Any]]:
    from pellucid.options import types_of

    types, usual = types_of(config), {field.name: field.default for field in dataclasses.fields(config)}
    return [
        {
            "name": name,
            "type": types[name].__name__,
            "usual": usual[name] if usual[name] is not dataclasses.MISSING else None,
            "help": declared.help,
            "choices": list(declared.choices),
            "minimum": declared.minimum,
            "maximum": declared.maximum,
            "kinds": list(declared.kinds),
            "is_reading": name in READING_CHOICES,
        }
        for name, declared in options_of(config).items()
        if name in names
    ]


def preview_data(source: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """What was read, in words, its first examples and columns, and the networks that can learn it. No training.

    Of a table of which no column was chosen the likeliest one to predict is proposed that can be learned.
    """
    request = request_training(source, options)
    is_proposed = False
    if isinstance(request.data, TableData) and not request.reading.target and not request.reading.task:
        from pellucid.data.prepare.targets import likely_targets

        is_proposed = True
        request, task = _open_first(request, likely_targets(request.data)[:MOST_PROPOSED])
    else:
        task = _open(request)
    from pellucid.figures.words.training import data_lines

    facts = task.facts
    data = request.data
    (training,) = request.trainings
    return {
        "kind": data.kind,
        "lines": data_lines(facts._replace(is_file=False)),  # how else they may be read is a field of the page
        "first": [*facts.first[:12], *(" → ".join(pair) for pair in facts.first_pairs[:12])],
        "columns": [{"name": column.name, "kind": column.kind} for column in getattr(data, "columns", ())][:200],
        "target": facts.target,
        "is_proposed": is_proposed,
        "task": facts.task,
        "classes": list(facts.symbols[:40]) if facts.class_counts else [],
        "sides": facts.items,
        "models": [{"name": card.name, "summary": card.summary} for card in networks_for(data.kind).values()],
        "model": training.model,
    }


def preview_split(source: str, options: Mapping[str, Any]) -> str:
    """The report on how data divide into train, dev and test, in the terminal's words; "" for kinds without one."""
    from pellucid.api.split import split
    from pellucid.data.options import DataOptions, open_with

    reading = {name: options[name] for name in ("kind", "encoding", "separator") if options.get(name)}
    if open_with(DataOptions(source, **reading)).kind not in SPLIT_KINDS:
        return ""
    asked = {name: options[name] for name in ("target", "group", "order", "strategy") if options.get(name)}
    return repr(split(source, dry_run=True, **reading, **asked))


def preview_plan(source: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """What a training would do and how long it takes, measured by a few steps that nobody keeps."""
    request = request_training(source, options)
    task = _open(request)
    from pellucid.figures.words.training import plan_lines
    from pellucid.training.plan import choose_plan
    from pellucid.training.trainer import build_training, network_facts

    (training,) = request.trainings
    task.require_options(training)
    card = task.find_card(training.model)
    config, plan = choose_plan(card, task, training)
    network = network_facts(card, config, build_training(card, config, plan, task).model)
    return {"lines": plan_lines(plan, network), "seconds": plan.seconds, "steps": plan.steps}


def _open_first(request: TrainRequest, targets: Sequence[str]) -> tuple[TrainRequest, Any]:
    """The first of the columns that can be predicted; where none can, the refusal of the first."""
    refusals = []
    for target in targets:
        proposed = dataclasses.replace(request, reading=dataclasses.replace(request.reading, target=target))
        try:
            return proposed, _open(proposed)
        except PellucidError as refusal:
            refusals.append(refusal)
    raise refusals[0]


def _open(request: TrainRequest) -> Any:
    from pellucid.training.fine_tuning import Origin
    from pellucid.training.tasks import open_task

    if not request.trainings:
        raise PellucidError("nothing is asked for", fix="Choose a network")
    begins_from = request.trainings[0].from_run
    return open_task(request.reading, request.data, Origin.open(begins_from) if begins_from else None)
