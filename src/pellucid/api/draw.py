"""Draw any figure or lesson by its name, from data, from a run, or from something that is trained for it.

A lesson brings its own `measure`. A figure is drawn from a record, and `drawn_records.py` knows how to come by each.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pellucid.api.drawn_records import MEASURES, DrawOptions, Measured
from pellucid.api.results import require_output_path, write_output
from pellucid.errors import PellucidError, quoted, require_one_of
from pellucid.figures.picture import FigureCard, Picture, all_figures
from pellucid.figures.words.notes import note_sentences
from pellucid.lessons.lesson import Lesson, all_lessons
from pellucid.options import given_options, options_of

Card = FigureCard[Any] | Lesson[Any]

LONGEST_WORD = 60  # whose arrows can still be told apart


class DrawnFigure(NamedTuple):
    """A picture, the record that it was drawn from, and how that came about."""

    name: str
    record: Any
    notes: tuple[str, ...]
    drawing: Picture

    def _repr_svg_(self) -> str:
        """In a notebook, the picture."""
        return self.drawing.svg

    def __repr__(self) -> str:
        return "\n".join([*self.notes, self.drawing.title, *[f"  {line}" for line in self.drawing.caption]])


def drawable() -> dict[str, Card]:
    """Every figure and every lesson by its name."""
    figures, lessons = all_figures(), all_lessons()
    both = set(figures) & set(lessons)
    assert not both, f"{both} are figures and lessons"
    cards: dict[str, Card] = {**figures, **lessons}
    return {name: cards[name] for name in sorted(cards)}


def describe_lessons() -> list[dict[str, Any]]:
    """Every lesson with its knobs: name, type, usual value, bounds, choices and help, as pages show them."""
    from dataclasses import fields

    from pellucid.options import types_of

    found = []
    for name, lesson in all_lessons().items():
        defaults: dict[str, Any] = {field.name: field.default for field in fields(lesson.knobs)}
        types = types_of(lesson.knobs)
        knobs = [
            {
                "name": knob,
                "type": getattr(types[knob], "__name__", "tuple"),
                "usual": list(defaults[knob]) if isinstance(defaults[knob], tuple) else defaults[knob],
                "help": declared.help,
                "minimum": declared.minimum,
                "maximum": declared.maximum,
                "choices": list(declared.choices),
            }
            for knob, declared in options_of(lesson.knobs).items()
        ]
        found.append({"name": name, "summary": lesson.summary, "knobs": knobs})
    return found


def find_drawable(name: str) -> Card:
    """The figure or lesson of that name, or an error that brings the nearest one."""
    cards = drawable()
    require_one_of("figure", name, cards)
    return cards[name]


def draw(
    figure: str, source: str | Path | None = None, *, out: str | Path | None = None, **options: Any
) -> DrawnFigure:
    """Any figure or lesson by its name, of data or a run, and into a file that ends in .svg, .png or .html.

    Every option of the command is a parameter: word, input, seed, layer, head, least, kind and encoding of a figure,
    the knobs of a lesson.

    >>> draw("bigram-graph", word="emma").drawing.title
    'The bigrams of emma'
    >>> draw("scalar-rnn", steps=3, weights=(0.5, 2)).record.weights
    (0.5, 2)
    """
    card = find_drawable(figure)
    if out is not None:
        require_output_path(Path(out))
    if isinstance(card, Lesson):
        knobs = set_knobs(card, source, options)
        record = card.measure(knobs)
        measured = Measured(record, card.notes(record))
    else:
        for name in options:
            if name not in options_of(DrawOptions):
                _refuse_useless(card, name)
        asked = DrawOptions(source=None if source is None else str(source), **options)
        require_options(card, asked)
        measured = MEASURES[card.needs](card, asked)
    drawn = DrawnFigure(figure, measured.record, tuple(note_sentences(measured.notes)), card.draw(measured.record))
    if out is not None:
        from pellucid.figures.picture import picture_file

        write_output(Path(out), picture_file(drawn.drawing, Path(out).suffix.lower()))
    return drawn


def set_knobs(lesson: Lesson[Any], source: str | Path | None, given: Mapping[str, Any]) -> Any:
    """The knobs of a lesson as they were asked for, checked; what would change nothing is refused."""
    asked = dict(given)
    for name in asked:
        if name not in lesson.options:
            _refuse_useless(lesson, name)
    if source is not None:
        if not lesson.argument:
            raise _takes_nothing(lesson, str(source))
        if lesson.argument in asked:
            raise PellucidError(
                f"{{{lesson.argument}}} is given, and {quoted(str(source))} as well",
                fix="Leave one of them out",
                options={lesson.argument: None},
            )
        asked[lesson.argument] = str(source)
    for name, value in asked.items():
        if value == "":
            raise PellucidError(f"{{{name}}} is empty", fix="Give it something, such as e", options={name: None})
    return lesson.knobs(**asked)


def knobs_of(card: Card) -> type | None:
    """The dataclass of a lesson's knobs; None of a figure, which has the options of `DrawOptions`."""
    return card.knobs if isinstance(card, Lesson) else None


def argument_of(card: Card) -> str:
    """What may stand behind the name of a picture; "" where nothing may."""
    if not isinstance(card, Lesson):
        return "DATA|RUN"
    return "DATA" if card.argument == "source" else card.argument.upper()


def lesson_knobs() -> dict[str, None]:
    """The names of the knobs of all lessons."""
    return dict.fromkeys([name for lesson in all_lessons().values() for name in lesson.options])


def _refuse_useless(card: Card, name: str) -> None:
    """Refuse an option that this picture does not have: one of another picture, or of none."""
    require_one_of("option", name, {**dict.fromkeys(options_of(DrawOptions)), **lesson_knobs()})
    raise PellucidError(f"{{{name}}} changes nothing in {card.name}", fix="Leave it out", options={name: None})


def _takes_nothing(lesson: Lesson[Any], source: str) -> PellucidError:
    from pellucid.runs import is_run

    if lesson.figure_of_run and is_run(source):
        return PellucidError(
            f"{lesson.name} compares several trainings, and {quoted(source)} is a run",
            fix=f"Draw {lesson.figure_of_run} of it",
        )
    return PellucidError(
        f"{lesson.name} is a demonstration and takes neither data nor a run", fix=f"Leave {quoted(source)} out"
    )


def require_options(card: Card, options: DrawOptions) -> None:
    """Refuse what would change nothing, and what cannot be drawn, before anything is loaded."""
    given = given_options(options)
    for name in ("word", "input", "seed", "column", "bins", "layer", "head", "least", "boundary"):
        value = given.get(name)
        if value is None:
            continue
        if name not in card.options:
            _refuse_useless(card, name)
        if value == "":
            raise PellucidError(f"{{{name}}} is empty", fix="Give it something, such as e", options={name: None})
    if options.word and options.source is not None:
        raise PellucidError(
            "{word} is drawn in place of DATA, and both are given",
            fix="Leave one of them out",
            options={"word": None},
        )
    if options.word and len(options.word) > LONGEST_WORD:
        raise PellucidError(
            f"{{word}} has {len(options.word):,} characters, and {LONGEST_WORD} can be drawn",
            fix="Put it into a file and draw that",
            options={"word": None},
        )
    if options.seed is not None:
        from pellucid.decoding.options import require_seed

        require_seed(options.seed)
