"""The end of a run: the best weights, their loss on every side, samples, a verdict, and one honest sentence."""

from __future__ import annotations

from pellucid.records import Ending, Ladder, Rung, TrainingReport
from pellucid.training import checkpoints
from pellucid.training.baselines import Counted, bits_per_character
from pellucid.training.evaluation import loss_on
from pellucid.training.findings import findings
from pellucid.training.opening import Opened
from pellucid.training.reports import Result, report_from
from pellucid.training.session import Session
from pellucid.training.speaking import samples_of
from pellucid.training.verdict import verdict

FINAL_SAMPLES = 10


def finished(session: Session, ending: Ending, found: Opened, counted: list[Counted]) -> tuple[TrainingReport, Result]:
    """Everything that is known only at the end. The test side is read here, once."""
    shop, writer = session.shop, session.writer
    tensors, step = checkpoints.load_best(writer.path)
    shop.model.load_state_dict(tensors)
    network = shop.model.for_inference()
    at_best = next(evaluation for evaluation in session.evaluations if evaluation.step == step)
    has_test = found.sides.test.n_predicted > 0
    timing = session.last_timing
    rung = Rung(
        name=shop.card.name,
        is_counted=False,
        parameters=shop.model.n_parameters,
        train=at_best.train,
        dev=at_best.dev,
        test=loss_on(network, found.sides.test, shop.plan.context).nats if has_test else None,
        bits_per_character=bits_per_character(at_best.dev, found.sides),
        seconds=timing.seconds,
        tokens_per_second=timing.tokens_per_second,
    )
    rungs = sorted([rung, *(one.with_test(found.sides) for one in counted)], key=lambda rung: rung.dev)
    ladder = Ladder(found.facts.said, tuple(rungs))
    for finding in findings(session.looks(), session.start):
        writer.append("findings", finding)
        session.listener.found(finding)
    best_count = ladder.best_count
    assert best_count is not None, "counting is always tried"
    result = Result(
        start=session.start,
        ladder=ladder,
        ending=ending,
        verdict=verdict(session.evaluations, ending, best_count.dev),
        samples=samples_of(network, found.sides, FINAL_SAMPLES, shop.plan.seed),
        sentence=sentence(rung, best_count),
    )
    return report_from(writer.path, result), result


def sentence(rung: Rung, best_count: Rung) -> str:
    """What the network earns over counting, or that it earns nothing; on dev, and on test where there is one.

    >>> network = Rung("transformer", False, 200_064, 1.8, 1.88, 1.89, 2.7, 60.0, 9e4)
    >>> print(sentence(network, Rung("Kneser–Ney 6-gram", True, 7, 1.6, 1.96, 1.95, 2.8, 1.0, None)))
    The transformer earns 0.080 nats a token over counting (1.8800 against the Kneser–Ney 6-gram's 1.9600 on dev; on
    test 0.060).
    """
    gap = best_count.dev - rung.dev
    against = f"{rung.dev:.4f} against the {best_count.name}'s {best_count.dev:.4f} on dev"
    on_test = ""
    if rung.test is not None and best_count.test is not None:
        on_test = f"; on test {best_count.test - rung.test:.3f}"
    if gap <= 0:
        return (
            f"The {rung.name} earns nothing over counting: it is {-gap:.3f} nats a token behind ({against}{on_test})."
        )
    return f"The {rung.name} earns {gap:.3f} nats a token over counting ({against}{on_test})."
