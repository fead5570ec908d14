"""Train a network, go on with a run, compare networks, search the learning rate.

Options come by name, and each is declared once: `DataOptions`, `TrainOptions` and the configs of the networks. What can
be refused is refused before torch is loaded, and so are the data.
"""

from __future__ import annotations

import dataclasses
import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.api.results import write_output
from pellucid.api.run import TrainedRun
from pellucid.data.kinds import require_kind
from pellucid.data.options import DataOptions, open_with, require_used
from pellucid.data.readers.memory import MEMORY, TARGET, has_targets, is_place, read_memory
from pellucid.decoding.options import require_seed
from pellucid.errors import PellucidError, did_you_mean, quoted
from pellucid.figures import Shown
from pellucid.models.catalogue import compared_networks, default_network, find_network
from pellucid.models.counting import AUTO, COUNT_MODELS, CountOptions
from pellucid.options import options_of
from pellucid.runs import BASE, new_run_path, open_run, require_room
from pellucid.training.fine_tuning import Origin
from pellucid.training.launch import is_follower, restarted_run
from pellucid.training.options import (
    COUNTING,
    RateOptions,
    Setting,
    TrainOptions,
    all_options,
    network_settings,
    require_network,
    windows_of,
)
from pellucid.training.run_data import require_resumable, run_name_for
from pellucid.training.tasks.counted_sides import count_beside
from pellucid.training.torch_loading import is_only_training

if TYPE_CHECKING:
    from pellucid.data import Data
    from pellucid.records import Ladder, LearningRateSearch, SizeLadder
    from pellucid.training.callbacks import Callbacks
    from pellucid.training.workers import WorkerOptions

SWEEP_STEPS = 100  # of one search for the learning rate
MOST_SEEDS = 20
SECONDS_WORTH_WORKERS = 10.0  # of work that is left: two processes then make up for their start, of about four
SIZE_PICTURE = "accuracy-by-size.svg"


@contextmanager
def ignoring_garbage() -> Iterator[None]:
    """Inside, Python looks for no garbage. Modules stay: to look through those of torch is a tenth of its start.

    Afterwards they are not looked through either, unless they stand beside what others may want to be rid of.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if is_only_training():
                gc.freeze()
            gc.enable()


@dataclass(frozen=True)
class TrainRequest:
    """Data that are open, and what is to be trained on them."""

    reading: DataOptions
    data: Data
    trainings: tuple[TrainOptions, ...]  # one for each network
    began: float  # by the monotonic clock


def request_training(source: object, given: Mapping[str, Any], *, models: Sequence[str] | None = None) -> TrainRequest:
    """Check what is asked for, open the data, and check again what depends on their kind.

    models: the networks to compare; none of them are all that are usually compared, and None is the one of the options.
    """
    began = time.monotonic()
    for name in given:
        if name not in all_options():
            raise PellucidError(f"there is no option called {quoted(name)}", fix=did_you_mean(name, all_options()))
    origin = Origin.open(str(given["from_run"])) if given.get("from_run") else None
    if origin:
        given = _from_origin(origin, given, is_compared=models is not None)
    if "minutes" in given and "steps" in given:
        raise PellucidError(
            "{minutes} and {steps} are both given",
            fix="Leave one of them out",
            options={"minutes": None, "steps": None},
        )
    if given.get("steps") == 0:
        raise PellucidError(
            "steps is 0", fix="Choose at least 1, or leave it out and give {minutes}", options={"minutes": None}
        )
    named = [str(given.get("model", ""))] if models is None else list(models)
    for name in filter(None, named):
        require_network(name, "")
    for name in COUNTING:
        if name in given:
            raise PellucidError(
                f"{{{name}}} changes nothing for a network",
                fix="Leave it out, or choose a {model} that counts",
                options={name: None, "model": None},
            )
    for name in named:
        _options_for(name, "", given, is_compared=models is not None)
    reading = _reading(source, named[0] if len(named) == 1 else "", given)
    data = open_with(reading) if is_place(source) else _read(source, reading)
    if origin:
        origin.require_data(data)
    if models is None:
        names = [named[0] or default_network(data.kind).name]
    else:
        names = named or list(compared_networks(data.kind))
    trainings = tuple(_options_for(name, data.kind, given, is_compared=models is not None) for name in names)
    for options in trainings:
        require_used(options, data.kind)
        if models is None:  # of several networks some may use what others do not
            options.require_effective()
    return TrainRequest(reading, data, trainings, began)


def _from_origin(origin: Origin, given: Mapping[str, Any], *, is_compared: bool) -> dict[str, Any]:
    """What is asked, with what follows from the run to begin from; what would contradict it is refused."""
    run = origin.run
    if is_compared:
        raise PellucidError("{from_run} is for one network", fix="Use pellucid train", options={"from_run": None})
    for name in ("tokens", "boundary"):
        if name in given:
            raise PellucidError(
                f"{{{name}}} changes nothing: the vocabulary is that of {run.name}",
                fix="Leave it out",
                options={name: None},
            )
    if given.get("model", run.model) != run.model:
        raise PellucidError(
            f"{run.name} is a run of {run.model}, and {given['model']} cannot begin from it",
            fix="Leave {model} out",
            options={"model": None},
        )
    follows = {"kind": run.kind, "model": run.model}
    return {**follows, **given, **({"boundary": "two"} if origin.vocabulary.has_end else {})}


def _read(given: object, reading: DataOptions) -> Data:
    """Data that are in Python already. An option that means nothing for their kind is refused."""
    data = read_memory(given, kind=reading.kind)
    require_used(reading, data.kind)
    return data


def _reading(source: object, model: str, given: Mapping[str, Any]) -> DataOptions:
    """How the data are to be read. An autoencoder is trained to give back what it reads."""
    asked = {name: given[name] for name in options_of(DataOptions) if name in given}
    if has_targets(source) and getattr(source[0], "ndim", 2) == 2:  # type: ignore[index]  # it is a pair
        asked.setdefault("target", TARGET)
    if model == "autoencoder":
        asked.setdefault("task", "reconstruction")
    context, _ = windows_of(model or "transformer", {"context": given["context"]} if "context" in given else {})
    return DataOptions(source=str(source) if is_place(source) else MEMORY, context=context, **asked)


def _options_for(model: str, kind: str, given: Mapping[str, Any], *, is_compared: bool) -> TrainOptions:
    """What is asked of one network and its training; kind "": the data are not known yet.

    Where networks are compared, the context is that of the text's windows: how far each looks back is its own affair.
    """
    if model:
        require_network(model, kind)
    training = {name: given[name] for name in options_of(TrainOptions) if name in given and name != "model"}
    network = {name: given[name] for name in network_settings() if name in given}
    if is_compared:
        network.pop("context", None)
    _, own = windows_of(model, network)
    return TrainOptions(model=model, network=own, kind=kind, **training)


def request_counting(source: object, given: Mapping[str, Any]) -> tuple[DataOptions, CountOptions, Data]:
    """Check what is asked of a model that counts, and open the data: a list or a text."""
    model = str(given["model"])
    heard = {"model", "seed", "n", *COUNTING, *options_of(DataOptions)}
    for name in given:
        if name not in all_options():
            raise PellucidError(f"there is no option called {quoted(name)}", fix=did_you_mean(name, all_options()))
        if name not in heard:
            raise PellucidError(
                f"{{{name}}} changes nothing for {model}, which only counts", fix="Leave it out", options={name: None}
            )
    own = {name: given[name] for name in ("model", *COUNTING) if name in given}
    asked = CountOptions(**own, n=str(given.get("n", AUTO)))
    asked.require_heard(given)
    require_seed(int(given.get("seed", 1)))
    reading = _reading(source, "", {name: value for name, value in given.items() if name != "model"})
    data = open_with(reading) if is_place(source) else _read(source, reading)
    require_kind(data, "list", "text")
    return reading, asked, data


def train(
    data: object = "names",
    *,
    name: str = "",
    runs: str | Path = BASE,
    callbacks: Callbacks | None = None,
    **options: Setting,
) -> TrainedRun:
    """Train a network on data: a path, the name of a set that comes with pellucid, or what Python holds already.

    That is a frame of pandas, Polars, Arrow or Hugging Face, columns by name, a list of texts or of pairs, an array, or
    examples and targets as two of them. They are not kept: to go on with a stopped run, give them again.

    Within so many minutes, or so many steps; without a model, one that suits the data. Every option of the command is a
    parameter: width=64, learning_rate=0.01, tokens="bpe", target="species". A model that counts (model="bigram", or
    "ngram" with n=3) makes a run as well, at once and without a budget. name: of the run; runs: the folder of all runs.
    """
    base = Path(runs)
    if options.get("model") in COUNT_MODELS:
        return _count(data, options, name, base, callbacks or usual_callbacks())
    request = request_training(data, options)
    (training,) = request.trainings
    if (again := restarted_run(base)) is not None and not is_follower():
        return resume(again, data=data if not is_place(data) else "", callbacks=callbacks)
    folder = Path()
    if not is_follower():  # of several processes that train together the first chooses it
        folder = new_run_path(name, f"{run_name_for(request.reading.source)}-{training.model}", base)
        require_room(folder)

    counting = count_beside(request.data, request.reading, training)
    with ignoring_garbage():
        from pellucid.training.run import train_run

    report = train_run(
        request.reading,
        training,
        folder,
        callbacks or usual_callbacks(),
        read=request.data,
        counting=counting,
        began=request.began,
    )
    return TrainedRun(report.folder, report)


def _count(data: object, options: Mapping[str, Any], name: str, base: Path, callbacks: Callbacks) -> TrainedRun:
    """A run of a model that counts."""
    began = time.monotonic()
    reading, asked, read = request_counting(data, options)
    folder = new_run_path(name, f"{run_name_for(reading.source)}-{asked.model}", base)
    require_room(folder)

    from pellucid.training.counted_run import count_run

    count_run(reading, asked, int(options.get("seed", 1)), folder, callbacks, read=read, began=began)
    return TrainedRun(folder)


def resume(
    run: str | Path,
    *,
    data: object = "",
    allow_new_data: bool = False,
    fresh_optimizer: bool = False,
    threads: int = 0,
    device: str = "",
    callbacks: Callbacks | None = None,
) -> TrainedRun:
    """Go on with a run that was stopped, exactly where it was.

    data: where the data are now, if they moved, or the data themselves, as of `train`; allow_new_data: they may be
    other data; fresh_optimizer: forget what the optimizer remembers; threads: 0 is as many as before; device: "" is the
    one of before.
    """
    opened = open_run(run)
    is_trained_on = not opened.is_finished and opened.model not in COUNT_MODELS
    if is_trained_on:
        require_resumable(opened)

    from pellucid.training.checkpoints import require_plausible_size
    from pellucid.training.run import ResumeOptions, resume_run

    if is_trained_on:
        card = find_network(opened.model, opened.kind)
        require_plausible_size(opened, card, card.config_from(opened.config))

    where = str(data) if is_place(data) else ""
    read = None if is_place(data) else read_memory(data, kind=opened.kind)
    changes = ResumeOptions(where, read, allow_new_data, fresh_optimizer, threads, device)
    resume_run(opened.path, changes, callbacks or usual_callbacks())
    return TrainedRun(opened.path)


def compare(
    data: object = "names",
    *,
    models: Sequence[str] = (),
    sizes: Sequence[int] = (),
    seeds: int = 1,
    name: str = "",
    workers: WorkerOptions | None = None,
    callbacks: Callbacks | None = None,
    **options: Setting,
) -> Shown[Ladder | SizeLadder]:
    """All networks, or those named, on one split with one budget each, beside models that are no network.

    sizes: numbers of training examples of a table or of images, for a comparison at each; of images three, if none are
    named. A picture of it, accuracy-by-size.svg, is then written beside the runs. seeds: trainings of each network at
    each size, whose means then have intervals. workers: networks trained at once, in processes or on Ray, each with
    one thread unless more are asked for.
    """
    request = request_comparison(data, models, options, workers)
    return Shown(run_comparison(request, sizes, name, callbacks, seeds=seeds, workers=workers)[0])


def run_comparison(
    request: TrainRequest,
    sizes: Sequence[int] = (),
    name: str = "",
    callbacks: Callbacks | None = None,
    *,
    seeds: int = 1,
    workers: WorkerOptions | None = None,
) -> tuple[Ladder | SizeLadder, Path]:
    """Each network of a request in a run of its own, at each size where there are several, and the folder of them all.

    The folder of a comparison at several sizes holds its picture too.
    """
    if not 1 <= seeds <= MOST_SEEDS:
        raise PellucidError(
            f"{{seeds}} is {seeds}", fix=f"Choose a number from 1 to {MOST_SEEDS}", options={"seeds": None}
        )
    if seeds > 1 and not sizes and request.data.kind != "images":
        raise PellucidError(
            "{seeds} is for a comparison at several sizes of the training side",
            fix="Name some with {sizes}, or leave it out",
            options={"seeds": None, "sizes": "100,400"},
        )
    if sizes and request.data.kind not in ("images", "table"):
        raise PellucidError(
            f"{{sizes}} is for tables and images, and {request.data.name} is neither",
            fix="Leave it out",
            options={"sizes": None},
        )
    folder = new_run_path(name, f"compare-{run_name_for(request.reading.source)}")
    heard = callbacks or usual_callbacks()

    from pellucid.training.comparison import compare_networks, compare_train_sizes

    if not sizes and request.data.kind != "images":
        ladder_: Ladder = compare_networks(
            request.reading, request.trainings, folder, heard, read=request.data, workers=workers
        )
        return ladder_, folder

    from pellucid.figures.drawings.accuracy_by_size import draw_accuracy_by_size
    from pellucid.figures.picture import picture_file

    ladder = compare_train_sizes(
        request.reading, request.trainings, sizes, folder, heard, read=request.data, seeds=seeds, workers=workers
    )
    write_output(folder / SIZE_PICTURE, picture_file(draw_accuracy_by_size(ladder), ".svg"))
    return ladder, folder


def request_comparison(
    data: object, models: Sequence[str], options: Mapping[str, Any], workers: WorkerOptions | None = None
) -> TrainRequest:
    """The same for several networks, half a minute each unless it is said otherwise."""
    if workers is not None:
        options = {"threads": 1, **options}  # a worker has one core, wherever it is
    if len(set(models)) < len(models):
        raise PellucidError("{models} names one of them twice", fix="Name each once", options={"models": None})
    asked = options if "minutes" in options or "steps" in options else {**options, "minutes": 0.5}
    request = request_training(data, asked, models=models)
    if "start" in options or request.data.kind not in ("list", "text"):
        return request
    # What each network learns by itself; and beside them what the best of them adds to counting.
    scratch = tuple(dataclasses.replace(one, start="scratch") for one in request.trainings)
    return dataclasses.replace(
        request, trainings=(*scratch, dataclasses.replace(request.trainings[-1], start="counts"))
    )


def rate(
    data: object = "names",
    *,
    seeds: Sequence[int] = (1, 2, 3),
    workers: WorkerOptions | None = None,
    on_seed: Callable[[LearningRateSearch, int, int], None] = lambda search, n, of: None,
    **options: Setting,
) -> Shown[LearningRateSearch]:
    """The learning rate for a network on data, by a sweep for each seed; its suggestion is None where none is sure.

    Options of the search itself: lowest=, highest=, steps= (rates that are tried), spacing="linear", rule="flattest",
    percentile=5; without a highest the range goes on until the loss turns. workers: seeds at once, and where.
    on_seed: told of each seed's search as it is done, and of how many are.
    """
    if not 1 <= len(seeds) <= MOST_SEEDS:
        raise PellucidError(
            f"{{seeds}} is {len(seeds)}", fix=f"Choose a number from 1 to {MOST_SEEDS}", options={"seeds": None}
        )
    if "from_run" in options:
        raise PellucidError("{from_run} is for a training", fix="Leave it out", options={"from_run": None})
    if "learning_rate" in options:
        raise PellucidError(
            "{learning_rate} is what is searched for", fix="Leave it out", options={"learning_rate": None}
        )
    if "minutes" in options:
        raise PellucidError("{minutes} changes nothing for a search", fix="Leave it out", options={"minutes": None})
    asked = RateOptions(**{name: options[name] for name in options_of(RateOptions) if name in options})  # type: ignore[arg-type]  # checked there, one by one
    others = {name: value for name, value in options.items() if name not in options_of(RateOptions)}
    # One thread, so that the answer is the same wherever a seed is tried.
    request = request_training(data, {"threads": 1, **others, "steps": SWEEP_STEPS})

    from pellucid.training.learning_rate import join_searches, search_learning_rate
    from pellucid.training.workers import WorkerOptions, run_pieces

    (training,) = request.trainings
    found: dict[int, LearningRateSearch] = {}
    pieces = [(request.reading, training, [seed], asked, request.data) for seed in seeds]
    n_here = 0
    if workers is None or workers.on == "processes":
        # The first one here: its time tells whether the others are worth the start of processes.
        began, n_here = time.monotonic(), 1
        found[0] = search_learning_rate(*pieces[0])
        on_seed(found[0], 1, len(seeds))
        is_soon = (time.monotonic() - began) * (len(pieces) - 1) < SECONDS_WORTH_WORKERS
        if workers is None or (is_soon and not workers.workers):
            workers = WorkerOptions(workers=1)
    for number, search in run_pieces(search_learning_rate, pieces[n_here:], workers):
        found[n_here + number] = search
        on_seed(search, len(found), len(seeds))
    return Shown(join_searches([found[number] for number in range(len(pieces))]))


def usual_callbacks() -> Callbacks:
    """The report's page is written, and nobody is told but the reader of a notebook."""
    from pellucid.api.notebook import NotebookCallbacks, is_notebook
    from pellucid.figures.report_page import report_html
    from pellucid.training.callbacks import Callbacks

    return NotebookCallbacks(report_html) if is_notebook() else Callbacks(page=report_html)
