"""What the layers of a run put out, and the gradients that come back to them, at the first look and at the last."""

from pellucid.errors import PellucidError
from pellucid.figures.charts.layer_maps import column_height, layer_name, ridge_column
from pellucid.figures.charts.panel import even_places
from pellucid.figures.charts.svg import INK, move_marks
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.notation import count_of, cut_end, percent, when_words
from pellucid.records import Health, TrainingReport, Watched

WIDTH, NOTES, LABELS, GAP = 330.0, 110.0, 300.0, 24.0
MOST_LAYERS = 32


def draw_layer_histograms(seen: TrainingReport | Watched) -> Picture:
    """The first look on the left, the last on the right; activations above, gradients below."""
    looks = [health for health in seen.health if health.layers]
    if not looks:
        raise PellucidError(
            "this run has no look at its layers", fix="Train again; every run is looked at as it begins"
        )
    looks = [looks[0], looks[-1]] if len(looks) > 1 else looks
    shown = even_places(len(looks[0].layers), MOST_LAYERS)
    marks: list[str] = []
    left = 0.0
    for i, look in enumerate(looks):
        labels = LABELS if i == 0 else 12.0
        layers = [look.layers[place] for place in shown if place < len(look.layers)]
        named = [("" if i else cut_end(layer_name(layer.path, layer.kind), 40), layer) for layer in layers]
        marks += move_marks(ridge_column(named, when_words(look.step), INK, WIDTH, labels), left, 0)
        left += labels + WIDTH + NOTES + GAP
    title = "What each layer puts out, and the gradient that comes back to it"
    return picture(title, _captions(looks, len(shown)), marks, left - GAP, column_height(len(shown)))


def _captions(looks: list[Health], n_shown: int) -> list[str]:
    n = len(looks[0].layers)
    said = [f"{count_of(n, 'layer')} on one batch; σ: the deviation; each ridge is scaled to its peak."]
    for look in looks:
        widest = max(look.layers, key=lambda layer: layer.deviation)
        narrowest = min(look.layers, key=lambda layer: layer.deviation)
        line = (
            f"{when_words(look.step).capitalize()} the deviations go from {narrowest.deviation:.2g} "
            f"({narrowest.path}) to {widest.deviation:.2g} ({widest.path})"
        )
        saturated = [(layer.saturated, layer.path) for layer in look.layers if layer.saturated is not None]
        if saturated:
            most, path = max(saturated)
            line += f"; the most saturated layer is {path}, with {percent(most)} of its values"
        said.append(line + ".")
    if n_shown < n:
        said.append(f"Drawn: {n_shown} layers, evenly from the first to the last.")
    return said


FIGURE = FigureCard(
    name="layer-histograms",
    summary="Histograms of a run's activations and gradients in each layer, at the first look and at the last.",
    needs=TrainingReport,
    draw=draw_layer_histograms,
    options=("seed",),
)
