"""The end of a run: the best weights, their loss on every side, samples, a verdict, and one honest sentence."""

from __future__ import annotations

from pellucid.records import Ending, Ladder, Rung, TrainingReport
from pellucid.training import checkpoints
from pellucid.training.findings import findings
from pellucid.training.reports import Result, report_from
from pellucid.training.session import Session
from pellucid.training.task import Baseline, Measured
from pellucid.training.verdict import verdict


def finished(session: Session, ending: Ending, simple: list[Baseline]) -> tuple[TrainingReport, Result]:
    """Everything that is known only at the end. The test side is read here, once."""
    shop, writer = session.shop, session.writer
    task = shop.task
    tensors, step = checkpoints.load_best(writer.path)
    shop.model.load_state_dict(tensors)
    network = shop.model.for_inference()
    at_best = next(evaluation for evaluation in session.evaluations if evaluation.step == step)
    answers = task.answers(network, shop.plan)
    on_test = task.measured(network, "test") if task.facts.n_tokens["test"] else Measured(float("nan"))
    timing = session.last_timing
    rung = Rung(
        name=shop.card.name,
        is_counted=False,
        parameters=shop.model.n_parameters,
        train=at_best.train,
        dev=at_best.dev,
        test=on_test.loss if task.facts.n_tokens["test"] else None,
        bits_per_character=task.bits_per_character(at_best.dev),
        seconds=timing.seconds,
        tokens_per_second=timing.tokens_per_second,
        metric=answers.metrics[task.measure.metric] if answers else None,
        test_metric=answers.test_metrics.get(task.measure.metric) if answers else None,
    )
    ladder = ranked(Ladder(task.facts.said, (rung, *(one.with_test() for one in simple)), (), task.measure))
    for finding in findings(session.looks(), session.start):
        writer.append("findings", finding)
        session.callbacks.on_finding(finding)
    best = ladder.best_count
    assert best is not None, "a simple model is always tried"
    result = Result(
        start=session.start,
        ladder=ladder,
        ending=ending,
        verdict=verdict(session.evaluations, ending, best.dev, session.start.uniform, task.measure.simple),
        samples=task.samples(network, shop.plan),
        sentence=task.sentence(rung, best),
        answers=answers,
    )
    return report_from(writer.path, result), result


def ranked(ladder: Ladder) -> Ladder:
    """The same with the best on dev first."""
    return ladder._replace(rungs=tuple(sorted(ladder.rungs, key=ladder.merit, reverse=True)))
