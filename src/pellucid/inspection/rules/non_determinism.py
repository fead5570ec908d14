"""With one seed, one module and one batch, the answer must be the same, or nothing can be found out twice.

Two copies are run from one seed of torch, numpy and Python. A difference is a source that no seed reaches, as the
clock or a generator of its own. A module that answers otherwise when it is asked again keeps something between calls.
"""

from torch import Tensor

from pellucid.inspection.instrument.perturbation import is_beyond_rounding, largest_change, size_of
from pellucid.inspection.instrument.short_run import runs_in_training
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

RUNS = 3


def check(specimen: Specimen) -> Findings:
    modes = ["eval", *(["training"] if runs_in_training(specimen) else [])]
    for mode in modes:
        runs = [specimen.copy(mode).main_output() for _ in range(RUNS)]
        answers = [run for run in runs if run is not None]
        if len(answers) < RUNS or not answers[0].numel():
            return
        different = sum(_is_different(answers[0], other) for other in answers[1:])
        if different:
            yield Finding.broken(
                "the model",
                f"{different} of {RUNS - 1} runs from the same seed differ from the first, in {mode}",
                "it draws from a source that the seeds of torch, numpy and Python do not reach",
                "draw with torch's functions, or give the module a generator that is seeded",
                again="for _ in range(2): torch.manual_seed(0); print(copy.deepcopy(model)(x).sum().item())",
            )
            return
        if mode == "eval":
            copied = specimen.copy("eval")
            asked = [copied.main_output() for _ in range(RUNS)]
            changed = sum(one is not None and _is_different(answers[0], one) for one in asked)
            if changed:
                yield _remembers(changed)
                return
            yield from _random(specimen, answers[0])
    yield Finding.sound(
        "the model",
        f"{RUNS} runs from one seed agree, in {' and in '.join(modes)}, on all {answers[0].numel()} outputs",
        "what is seen once can be seen again",
    )


def _random(specimen: Specimen, first: Tensor) -> Findings:
    """Answers in eval that hang on the seed: meant where something is made, and not where something is told."""
    other = specimen.copy("eval").main_output(seed=1)
    if other is None or not _is_different(first, other):
        return
    is_telling = specimen.targets is not None and not specimen.is_rebuilding
    yield Finding(
        "suspicious" if is_telling else "note",
        "the model",
        f"in eval, two seeds give outputs that differ by up to {largest_change(first, other):.3g}, outputs being of "
        f"size {size_of(first):.3g}",
        "what is told of an input is told at random, in use as in training",
        "draw only if self.training, unless it is a sampler",
        again="model.eval(); print((model(x) - model(x)).abs().max())",
    )


def _remembers(changed: int) -> Finding:
    return Finding.suspicious(
        "the model",
        f"asked {RUNS} times for the same batch with the same seed, a copy in eval gives another answer {changed} "
        "times",
        "it keeps something from one call to the next, so an answer depends on what was asked before",
        "begin each call from the same state, and pass what is to be remembered in and out",
        again="model.eval(); print((model(x) - model(x)).abs().max())",
    )


def _is_different(one: Tensor, other: Tensor) -> bool:
    # Sums over several threads may be added up in another order.
    return one.shape != other.shape or is_beyond_rounding(largest_change(one, other), one)


RULE = DoctorRule(
    name="non-determinism",
    proves="the same module gives another answer for the same batch and the same seed",
    how="runs copies of it from one seed of torch, numpy and Python, and one of them several times",
    check=check,
    cannot_see="what differs between processes, machines and numbers of threads",
)
