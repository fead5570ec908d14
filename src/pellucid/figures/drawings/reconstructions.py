"""Images and what an autoencoder gives back of them."""

from pellucid.errors import PellucidError
from pellucid.figures.charts.svg import BLUE, INK, LINE, move_marks, svg_text, tooltip
from pellucid.figures.drawings.mistakes import ACROSS, GAP, SIDE, WIDTH, framed_image
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.answers import judged_words, metrics_words
from pellucid.figures.words.notation import count_of, cut_end
from pellucid.records import TrainingReport

MOST = 18


def draw_reconstructions(seen: TrainingReport) -> Picture:
    """Each image above its reconstruction."""
    examples = [each for each in (seen.answers.examples if seen.answers else ()) if each.pixels and each.answer_pixels]
    if seen.answers is None or not examples:
        raise PellucidError(
            f"the run {seen.name} gave no images back", fix="Draw it of a run of an autoencoder on images"
        )
    marks: list[str] = []
    for i, example in enumerate(examples[:MOST]):
        one = [
            tooltip(cut_end(example.what, 80)),
            *framed_image(example.pixels, 0, LINE),
            *framed_image(example.answer_pixels, SIDE + 8, BLUE),
            svg_text(0, 2 * SIDE + 28, cut_end(example.truth or example.what, 16), INK),
        ]
        marks += move_marks(one, (i % ACROSS) * (SIDE + GAP), (i // ACROSS) * (2 * SIDE + 64))
    height = -(-len(examples[:MOST]) // ACROSS) * (2 * SIDE + 64) - 20
    size = seen.network.config.get("latent")
    through = f" through {count_of(size, 'number')}" if isinstance(size, int) else ""
    captions = [
        f"{judged_words(seen, seen.answers.n)}: {metrics_words(seen.answers.metrics, '')}.",
        f"Above, an image; below, framed in blue, what came back of it{through}.",
    ]
    title = f"What the {seen.network.name} gives back"
    return picture(title, captions, marks, WIDTH, height)


FIGURE = FigureCard(
    name="reconstructions",
    summary="Images beside what a run's autoencoder gives back of them.",
    needs=TrainingReport,
    draw=draw_reconstructions,
)
