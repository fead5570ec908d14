"""How the records of the attention figures are measured: on a run, on a network trained for it, or on layers alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pellucid.cli.measured import Asked, Measured, named_run, require_nothing_named, trained_for_it
from pellucid.errors import PellucidError

if TYPE_CHECKING:
    from pathlib import Path

    from pellucid.data import Vocabulary
    from pellucid.training.stored import StoredRun
    from pellucid.training.trained import Trained

# The transformer that is trained where no run is given: two layers of two heads can be read from the last row.
SHOWN: dict[str, Any] = {
    "model": "transformer",
    "size": "tiny",
    "steps": 300,
    "training": {"threads": 1, "batch": 64},
}
ATTENTIVE = ("transformer", "encoder", "encoder-decoder")
READ = "isabella"
READ_ON_THE_ROAD = "bad dab"
OF_TEXT = 12  # tokens of a run's text that are read where none are given
KINDS = ("index", "sinusoidal", "learned", "rotary", "relative", "alibi")
LEARNED = ("learned", "relative")  # these say nothing before they are trained
LENGTH, WIDTH = 14, 16  # positions that are shown, and how many numbers each has


def _attention_maps(asked: Asked) -> Measured:
    if asked.source is None:
        return _of_a_shown_one(asked)
    run = named_run(asked)
    from pellucid.runs import read_record
    from pellucid.training.stored import kind_of

    record = read_record(run)
    kind, name = kind_of(record), str(record.get("model"))
    if kind == "images" and name == "vit":
        raise PellucidError(f"{run.name} is a run of vit, which reads patches", fix="Draw patch-attention of it")
    if name not in ATTENTIVE:
        raise PellucidError(
            f"{run.name} is a run of {name}, which has no attention",
            fix=f"Name one of {' or '.join(ATTENTIVE)}, or none",
        )
    return _of_pairs(asked, run) if kind == "pairs" else _of_sequences(asked, run)


def _of_sequences(asked: Asked, run: Path) -> Measured:
    from pellucid.training.stored import stored_run

    stored = stored_run(run)
    text = _of_the_run(stored) if asked.read is None else asked.read
    _require_readable(stored.vocabulary, text)

    from pellucid.training.trained import awakened

    return _read(awakened(stored), text, f"{run.name}: {stored.record['model']} on {stored.data.said}")


def _of_pairs(asked: Asked, run: Path) -> Measured:
    from pellucid.training.asking import answering_run, questions

    answering = answering_run(run)
    data = answering.record["data"]
    source = str(data["first"][0]).split(" → ")[0] if asked.read is None else asked.read
    assert answering.vocabulary is not None
    _require_readable(answering.vocabulary, source)
    wanted = questions(answering, [], text=source)

    from pellucid.models.pairs.contract import PairModel
    from pellucid.training.looking import pair_maps
    from pellucid.training.predicting import awakened

    model = awakened(answering).double()
    assert isinstance(model, PairModel)
    name = answering.record["model"]
    seen = pair_maps(model, answering.vocabulary, wanted.sources[0], f"A run of {name}")
    return Measured(seen, (f"{run.name}: {name} on {data['said']}",))


def _of_a_shown_one(asked: Asked) -> Measured:
    from pellucid.data import Characters, open_data
    from pellucid.data.kinds import ListData

    text = READ if asked.read is None else asked.read
    names = open_data("names")
    assert isinstance(names, ListData)
    _require_readable(Characters.of(names.items), text)
    from pellucid.training.trained import load_trained

    with trained_for_it(SHOWN, asked.chosen_seed) as (_, run):
        said = f"no run was named: a {SHOWN['model']} of names, {SHOWN['steps']} steps, seed {asked.chosen_seed}"
        return _read(load_trained(run), text, said)


def _require_readable(vocabulary: Vocabulary, text: str) -> None:
    """Refuse what the network cannot read before torch is loaded, or anything trained."""
    try:
        vocabulary.encode(text)
    except PellucidError as error:
        raise PellucidError(error.what, where=error.where, fix="Give --input other words") from error


def _of_the_run(stored: StoredRun) -> str:
    """The first item that the run's network learned from, or the beginning of its text."""
    if stored.is_list:
        return stored.data.first[0]
    # Cut in the middle of a word, the end may be none that is known; it is past what is read.
    beginning = stored.vocabulary.encode(stored.seen.text[: 40 * OF_TEXT], "skip")
    text = stored.vocabulary.decode(beginning[:OF_TEXT])
    if not text:
        raise PellucidError("what the run was trained on is not there any more", fix="Say what to read with --input")
    return text


def _read(trained: Trained, text: str, said: str) -> Measured:
    from pellucid.training.looking import text_maps

    n_tokens = len(trained.stored.vocabulary.encode(text))
    notes = [said]
    if n_tokens > trained.longest_prompt:
        notes.append(f"the input has {n_tokens:,} tokens; the last {trained.longest_prompt:,} are read")
    return Measured(text_maps(trained, text), tuple(notes))


def _road(asked: Asked) -> Measured:
    require_nothing_named(asked)
    from pellucid.models.attention_records import road_shown

    text = READ_ON_THE_ROAD if asked.read is None else asked.read
    said = f"queries and keys are drawn at random, seed {asked.chosen_seed}: equal characters ask and answer alike"
    return Measured(road_shown(text, seed=asked.chosen_seed), (said,))


def _positions(asked: Asked) -> Measured:
    require_nothing_named(asked)
    from pellucid.models.attention_records import new_positions_shown
    from pellucid.records import PositionKinds

    kinds = [
        _trained_positions(kind, asked.chosen_seed) if kind in LEARNED else new_positions_shown(kind, LENGTH, WIDTH)
        for kind in KINDS
    ]
    said = f"{' and '.join(LEARNED)} are those of a transformer of names after {SHOWN['steps']} steps"
    return Measured(PositionKinds(f"{LENGTH} positions; {said}, seed {asked.chosen_seed}", tuple(kinds)), ())


def _trained_positions(kind: str, seed: int) -> Any:
    from pellucid.models.attention_records import positions_shown
    from pellucid.models.transformer import Transformer
    from pellucid.training.trained import load_trained

    with trained_for_it({**SHOWN, "network": {"positions": kind}}, seed) as (_, run):
        model = load_trained(run).model
    assert isinstance(model, Transformer)
    return positions_shown(kind, model.positions, LENGTH)


def _masks(asked: Asked) -> Measured:
    require_nothing_named(asked)
    from pellucid.training.attention_studies import masks_study

    return Measured(masks_study(), ())


def _given(asked: Asked) -> Measured:
    require_nothing_named(asked)
    from pellucid.training.attention_studies import given_study

    return Measured(given_study(), ())


def _hand_set(asked: Asked) -> Measured:
    require_nothing_named(asked)
    from pellucid.models.exam import hand_set_variants
    from pellucid.records import HandSetShown

    return Measured(HandSetShown(hand_set_variants()), ())


MEASURES: dict[str, Callable[[Asked], Measured]] = {
    "AttentionMaps": _attention_maps,
    "RoadShown": _road,
    "PositionKinds": _positions,
    "MasksShown": _masks,
    "GivenShown": _given,
    "HandSetShown": _hand_set,
}
