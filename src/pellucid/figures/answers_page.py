"""What a network answered, as a section of its run's page: every text of the data goes through `safe`."""

from collections.abc import Callable

from pellucid.figures.charts.svg import safe
from pellucid.figures.drawings.calibration import draw_calibration
from pellucid.figures.drawings.confusion import draw_confusion
from pellucid.figures.drawings.latent import draw_latent
from pellucid.figures.drawings.mistakes import draw_mistakes
from pellucid.figures.drawings.reconstructions import draw_reconstructions
from pellucid.figures.drawings.regression import draw_regression
from pellucid.figures.picture import Picture
from pellucid.figures.report_tables import rows
from pellucid.figures.words.answers import chance_words, metric_lines
from pellucid.figures.words.data_words import is_judged, read_as
from pellucid.figures.words.formulas import cut
from pellucid.figures.words.merits import metric_words
from pellucid.records import Answered, Answers, TrainingReport

LONGEST = 48  # letters of a cell
MOST_ROWS = 60


def metric_boxes(report: TrainingReport) -> list[tuple[str, str, str]]:
    """The metrics on dev that are not the ladder's own, each for a box of the page's head."""
    answers, own = report.answers, (report.ladder.measure.metric, "log loss")
    if answers is None:
        return []
    unit = f", in units of {cut(report.data.target, 24)}" if report.data.target else ""
    return [
        (f"{name} on dev{unit if name in ('MAE', 'RMSE') else ''}", metric_words(name, value), "")
        for name, value in answers.metrics.items()
        if name not in own
    ]


def answers_html(report: TrainingReport, answers: Answers, figure: Callable[[Picture], str]) -> str:
    """Metrics in words, then a picture of whatever there is a picture of, then the answers themselves."""
    lines = metric_lines(answers, report.data)
    parts = ["".join([f"<p>{safe(line[:1].upper() + line[1:])}.</p>" for line in lines])]
    has_images = any(example.pixels for example in answers.examples)
    drawings = (
        (draw_confusion, answers.confusion is not None and answers.confusion.classes),
        (draw_calibration, answers.calibration is not None and any(each.n for each in answers.calibration.bins)),
        (draw_regression, answers.points),
        (draw_reconstructions, any(example.pixels and example.answer_pixels for example in answers.examples)),
        (draw_mistakes, has_images and is_judged(report.data)),
        (draw_latent, answers.latent),
    )
    parts += [figure(draw(report)) for draw, is_there in drawings if is_there]
    if answers.examples and not has_images:
        parts += ["<h3>Some answers</h3>", example_rows(answers.examples, report)]
    return "".join(parts)


def example_rows(examples: tuple[Answered, ...], report: TrainingReport) -> str:
    """A few answers beside the truth, the wrong ones first."""
    has_mark = is_judged(report.data)
    has_probability = any(example.probability is not None for example in examples)
    headings = [read_as(report.data.kind), "truth", "answer", *["probability"] * has_probability, *[""] * has_mark]
    body = []
    for example in examples[:MOST_ROWS]:
        texts = [cut(text, LONGEST) or "(empty)" for text in (example.what, example.truth, example.answer)]
        first, *others = [f"<code>{safe(text)}</code>" for text in texts]
        cells = "".join([f'<td class="words">{text}</td>' for text in others])
        cells += f"<td>{chance_words(example.probability)}</td>" * has_probability
        wrong = '<td class="words wrong">wrong</td>'
        cells += (wrong if not example.is_right else '<td class="words"></td>') * has_mark
        body.append(f'<tr><th scope="row">{first}</th>{cells}</tr>')
    n_left = len(examples) - MOST_ROWS
    more = f'<p class="quiet">and {n_left:,} more</p>' if n_left > 0 else ""
    words = (0, 1, 2, len(headings) - 1) if has_mark else (0, 1, 2)
    return rows(headings, body, words=words) + more
