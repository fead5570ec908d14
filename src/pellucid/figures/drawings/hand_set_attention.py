"""What the exam's decoder attends to, whose matrices are set by hand, and what that makes of its loss."""

from pellucid.figures.charts.matrix import Heat, heat, hundredths, weight_colour, weight_key
from pellucid.figures.charts.svg import INK, QUIET, lettered, moved
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.records import HandSetModel, HandSetShown

CELL, GAP = 46.0, 48.0


def draw_hand_set_attention(seen: HandSetShown) -> Picture:
    """A column for each variant: what each token attends to, and below it the chances of the output tokens."""
    marks = weight_key("no weight")
    left = bottom = 0.0
    for model in seen.variants:
        column, drawn, height = _column(model)
        marks += moved(column, left, 44)
        left, bottom = left + max(drawn.width, drawn.left + 360.0) + GAP, max(bottom, 44 + height)
    title = "What a decoder set by hand attends to: the exam's sorter"
    return picture(title, _captions(seen), marks, left - GAP, bottom)


def _column(model: HandSetModel) -> tuple[list[str], Heat, float]:
    drawn = heat(model.attention, weight_colour, CELL, model.tokens, model.tokens, written=hundredths)
    indent = drawn.left
    marks = [lettered(indent, 18, model.says, INK, is_bold=True, size=19), *moved(drawn.marks, 0, 36)]
    top = 36 + drawn.height + 30
    marks.append(lettered(indent, top, "probability of each output token", INK, is_bold=True))
    columns = (indent, indent + 90, indent + 200)
    for x, words in zip(columns, ("token", "at its place", "one before"), strict=True):
        marks.append(lettered(x, top + 26, words, QUIET))
    for token, own, before in zip(model.tokens[model.n_input :], model.own, model.before, strict=True):
        top += 24
        for x, words in zip(columns, (token, f"{own:.4f}", f"{before:.4f}"), strict=True):
            marks.append(lettered(x, top + 26, words, INK))
    marks.append(lettered(columns[0], top + 56, "loss", QUIET))
    marks.append(lettered(columns[1], top + 56, f"{model.unshifted_loss:.4f}", INK, is_bold=True))
    marks.append(lettered(columns[2], top + 56, f"{model.shifted_loss:.4f}", INK, is_bold=True))
    return marks, drawn, top + 66


def _captions(seen: HandSetShown) -> list[str]:
    first = seen.variants[0]
    said = [f"It reads {' '.join(first.tokens)}: the input up to START, then what it should write."]
    said.append(
        f"Scored at its own place, where it was already read, the output costs {first.unshifted_loss:.4f} nats "
        f"({first.says}); scored one place before, as a decoder has to, {first.shifted_loss:.4f}."
    )
    for other in seen.variants[1:]:
        apart = max(
            [
                abs(a - b)
                for row, twin in zip(first.attention, other.attention, strict=True)
                for a, b in zip(row, twin, strict=True)
            ]
        )
        beside = f"no weight differs by more than {apart:.4f}" if apart else "the weights are the same"
        said.append(
            f"{other.says[:1].upper()}{other.says[1:]}: {beside}, and the losses are {other.unshifted_loss:.4f} "
            f"and {other.shifted_loss:.4f}."
        )
    return said


FIGURE = FigureCard(
    name="hand-set-attention",
    says="What the exam's decoder, with its matrices set by hand, attends to, and the chances and losses that follow.",
    needs=HandSetShown,
    draw=draw_hand_set_attention,
    options=(),
    tiny=HandSetShown(
        (
            HandSetModel(
                says="hard",
                tokens=("A", "START", "A"),
                vocabulary=("A", "START"),
                n_input=2,
                attention=((1.0, 0.0, 0.0), (0.5, 0.5, 0.0), (0.5, 0.0, 0.5)),
                z=((1.0,), (0.5,), (1.0,)),
                logits=((1.0, 0.0), (0.5, 0.0), (1.0, 0.0)),
                probabilities=((0.73, 0.27), (0.62, 0.38), (0.73, 0.27)),
                own=(0.73,),
                before=(0.62,),
                unshifted_loss=0.3147,
                shifted_loss=0.478,
            ),
        )
    ),
)
