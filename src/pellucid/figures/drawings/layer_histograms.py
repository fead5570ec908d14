"""What the layers of a run put out, and the gradients that come back to them, at the first look and at the last."""

from pellucid.errors import PellucidError
from pellucid.figures.charts.layer_maps import Ridge, draw_ridges, layer_name, layer_ridge, ridges_height, shared_axis
from pellucid.figures.charts.panel import even_places
from pellucid.figures.charts.svg import INK, svg_text
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.notation import count_of, cut_end, percent
from pellucid.records import Health, LayerStats, TrainingReport, Watched

WIDTH, NOTES, LABELS, GAP, HEADING = 330.0, 110.0, 300.0, 24.0, 34.0
MOST_LAYERS = 32


def draw_layer_histograms(seen: TrainingReport | Watched) -> Picture:
    """The first look on the left, the last on the right; activations above, gradients below."""
    looks = [health for health in seen.health if health.layers]
    if not looks:
        raise PellucidError(
            "this run has no look at its layers", fix="Train again; every run is looked at as it begins"
        )
    looks = [looks[0], looks[-1]] if len(looks) > 1 else looks
    shown = even_places([layer.path for layer in looks[0].layers], MOST_LAYERS)
    block = ridges_height(len(shown))
    marks: list[str] = []
    left = 0.0
    for i, look in enumerate(looks):
        labels = LABELS if i == 0 else 12.0
        says = "before the first step" if look.step == 0 else f"at step {look.step:,}"
        layers = [look.layers[place] for place in shown if place < len(look.layers)]
        marks.append(f'<g transform="translate({left:.1f} 0)">')
        marks.append(svg_text(labels, 18, says, INK, is_bold=True, size=19))
        for is_gradient, top in ((False, HEADING), (True, HEADING + block + 24)):
            rows = [_ridge(layer, is_gradient, has_name=i == 0) for layer in layers]
            title = "gradient of the activation" if is_gradient else "activation"
            axis = shared_axis([row.histogram for row in rows], title)
            marks += [f'<g transform="translate(0 {top:.1f})">', *draw_ridges(rows, axis, WIDTH, labels), "</g>"]
        marks.append("</g>")
        left += labels + WIDTH + NOTES + GAP
    title = "What each layer puts out, and the gradient that comes back to it"
    return picture(title, _captions(looks, len(shown)), marks, left - GAP, HEADING + 2 * block + 24)


def _ridge(layer: LayerStats, is_gradient: bool, has_name: bool) -> Ridge:
    return layer_ridge(cut_end(layer_name(layer.path, layer.kind), 40) if has_name else "", layer, is_gradient)


def _captions(looks: list[Health], n_shown: int) -> list[str]:
    n = len(looks[0].layers)
    said = [f"{count_of(n, 'layer')} on one batch; σ: the deviation; each ridge is scaled to its peak."]
    for look in looks:
        when = "Before the first step" if look.step == 0 else f"At step {look.step:,}"
        widest = max(look.layers, key=lambda layer: layer.deviation)
        narrowest = min(look.layers, key=lambda layer: layer.deviation)
        line = (
            f"{when} the deviations go from {narrowest.deviation:.2g} ({narrowest.path}) to {widest.deviation:.2g} "
            f"({widest.path})"
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
