"""What `pellucid sweep` says: every trial with its losses, how far it came, and the run that came of it."""

from collections.abc import Iterator, Mapping

from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.tables import Part, Table, right
from pellucid.figures.words.notation import count_of, duration
from pellucid.records import SweepReport, SweepTrial

MOST_SHOWN = 40


def sweep_parts(seen: SweepReport) -> Iterator[Part]:
    """What a terminal shows of a search: the trials, best first, and what was made of the best."""
    drawn = f" of {seen.n_combinations:,} combinations" if seen.n_combinations > len(seen.trials) else ""
    rounds = ", ".join([f"{steps:,}" for steps in seen.steps])
    yield Text(
        f"{seen.model} on {printable(seen.source)}: {count_of(len(seen.trials), 'trial')}{drawn}, rounds of {rounds} "
        "steps; after each the better half goes on",
        "dim",
    )
    yield Text("")
    names = list(seen.over)
    headings = [f"dev after {steps:,}" for steps in seen.steps]
    made = Table("trial", *right(*[name.replace("_", " ") for name in names], *headings, "parameters"))
    for trial in seen.trials[:MOST_SHOWN]:
        devs = [f"{one.dev:.4f}" for one in trial.rounds]
        cells = [*[setting_words(trial.settings[name]) for name in names], *devs, *[""] * (len(headings) - len(devs))]
        made.add(str(trial.number), *cells, f"{trial.parameters:,}", style="bold" if trial is seen.best else "")
    yield made
    if len(seen.trials) > MOST_SHOWN:
        yield Text(f"and {len(seen.trials) - MOST_SHOWN} more, all worse; sweep.json has them", "dim")
    yield Text("")
    yield from [Text(printable(sentence)) for sentence in sweep_sentences(seen)]


def sweep_sentences(seen: SweepReport) -> list[str]:
    """What the search found, and what was made of it."""
    best = seen.best
    found = [
        f"Best by dev is trial {best.number}, {settings_words(best.settings)}: {best.dev:.4f} {seen.loss_unit} after "
        f"{best.rounds[-1].steps:,} steps." + _ahead_of(seen)
    ]
    if seen.best_run:
        test = f", on test {seen.best_test:.4f}" if seen.best_test is not None else ""
        found.append(
            f"A run with these settings is in {seen.best_run} and ready to use: dev {seen.best_dev:.4f}{test}. Test "
            "was read once, for it alone."
        )
    found.append(f"The search and the run took {duration(seen.seconds)} together.")
    return found


def _ahead_of(seen: SweepReport) -> str:
    """How the best and the next one did in the last round that both were in."""
    if len(seen.trials) < 2 or not seen.trials[1].rounds:
        return ""
    next_ = seen.trials[1]
    last = next_.rounds[-1]
    ours = seen.best.rounds[len(next_.rounds) - 1]
    return f" The next, trial {next_.number}, had {last.dev:.4f} after {last.steps:,} steps" + (
        f", and it {ours.dev:.4f}." if ours is not seen.best.rounds[-1] else "."
    )


def settings_words(settings: Mapping[str, object]) -> str:
    """
    >>> settings_words({"learning_rate": 0.003, "width": 64})
    'learning rate 0.003, width 64'
    """
    return ", ".join([f"{name.replace('_', ' ')} {setting_words(value)}" for name, value in settings.items()])


def setting_words(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def trial_words(trial: SweepTrial, round_: int, n: int, of: int) -> str:
    """One line of progress.

    >>> from pellucid.records import SweepRound
    >>> trial_words(SweepTrial(3, {"width": 64}, 900, (SweepRound(50, 2.1, 1.0),)), 0, 2, 8)
    'round 1, 2 of 8: width 64 has dev 2.1000 after 50 steps'
    """
    last = trial.rounds[-1]
    words = settings_words(trial.settings)
    return f"round {round_ + 1}, {n} of {of}: {words} has dev {last.dev:.4f} after {last.steps:,} steps"
