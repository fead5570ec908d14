"""Images and what an autoencoder gives back of them."""

from pellucid.errors import PellucidError
from pellucid.figures.charts.images import WIDTH, reconstruction_grid
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.notation import count_of, metric_words
from pellucid.records import TrainingReport

MOST = 18


def draw_reconstructions(seen: TrainingReport) -> Picture:
    """Each image above its reconstruction."""
    examples = [each for each in (seen.answers.examples if seen.answers else ()) if each.pixels and each.answer_pixels]
    if seen.answers is None or not examples:
        raise PellucidError(
            f"the run {seen.name} gave no images back", fix="Draw it of a run of an autoencoder on images"
        )
    drawn = reconstruction_grid(examples[:MOST])
    metrics = ", ".join([f"{name} {metric_words(name, value)}" for name, value in seen.answers.metrics.items()])
    size = seen.network.config.get("latent")
    through = f" through {count_of(size, 'number')}" if isinstance(size, int) else ""
    captions = [
        f"{seen.data.source}, {count_of(seen.answers.n, 'image')} of dev: {metrics}.",
        f"Above, an image; below, framed in blue, what came back of it{through}.",
    ]
    title = f"What the {seen.network.name} gives back"
    return picture(title, captions, drawn.marks, WIDTH, drawn.height)


FIGURE = FigureCard(
    name="reconstructions",
    summary="Images beside what a run's autoencoder gives back of them.",
    needs=TrainingReport,
    draw=draw_reconstructions,
    options=(),
)
