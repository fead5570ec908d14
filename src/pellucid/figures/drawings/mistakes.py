"""A few examples with their truth and what a network answered, the wrong ones first."""

from pellucid.errors import PellucidError
from pellucid.figures.charts.images import WIDTH, image_grid, text_rows
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.answers import example_noun, source_noun
from pellucid.figures.words.notation import count_of, metric_words
from pellucid.records import TrainingReport

MOST_IMAGES, MOST_ROWS = 24, 20


def draw_mistakes(seen: TrainingReport) -> Picture:
    """Images in a grid; rows and pairs as text, where the letters that differ are marked."""
    examples = seen.answers.examples if seen.answers and seen.data.task != "reconstruction" else ()
    if not examples:
        raise PellucidError(
            f"the run {seen.name} answers nothing that could be right or wrong",
            fix="Draw loss-curves, which every run has",
        )
    with_pixels = [example for example in examples if example.pixels]
    shown = with_pixels[:MOST_IMAGES] or list(examples[:MOST_ROWS])
    drawn = (
        image_grid(shown)
        if with_pixels
        else text_rows(shown, source_noun(seen.data.kind), by_letter=seen.data.kind == "pairs")
    )
    wrong = sum([not example.is_right for example in shown])
    title = f"What the {seen.network.name} gets wrong" if wrong else f"What the {seen.network.name} answers"
    return picture(title, _captions(seen, len(shown), wrong), drawn.marks, WIDTH, drawn.height)


def _captions(seen: TrainingReport, n_shown: int, n_wrong: int) -> list[str]:
    assert seen.answers is not None
    noun = example_noun(seen.data.kind)
    metrics = ", ".join([f"{name} {metric_words(name, value)}" for name, value in seen.answers.metrics.items()])
    said = [f"{seen.data.source}, {count_of(seen.answers.n, noun)} of dev: {metrics}."]
    if seen.data.task == "regression":
        return [*said, f"{count_of(n_shown, noun).capitalize()}, those farthest off first."]
    wrong = f"of which {n_wrong} {'is' if n_wrong == 1 else 'are'} wrong" if n_wrong else "and none is wrong"
    return [*said, f"{count_of(n_shown, noun)} are shown, {wrong}."]


FIGURE = FigureCard(
    name="mistakes",
    summary="Images, rows or pairs that a run's network answers wrong, with the truth, its answer and how sure it was.",
    needs=TrainingReport,
    draw=draw_mistakes,
    options=(),
)
