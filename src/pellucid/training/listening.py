"""Who may listen to a run. The loop knows nobody; a progress line, a page or a test hears what it likes."""

from typing import Protocol

from pellucid.records import (
    DataFacts,
    Evaluation,
    Finding,
    Health,
    InitialLoss,
    Ladder,
    NetworkFacts,
    Plan,
    SampledAt,
    Step,
    Timing,
)


class Listener(Protocol):
    """What is told while a run goes on, in this order."""

    def opened(self, data: DataFacts) -> None: ...

    def counted(self, ladder: Ladder) -> None: ...

    def planned(self, plan: Plan, network: NetworkFacts, folder: str) -> None: ...

    def started(self, start: InitialLoss) -> None: ...

    def resumed(self, step: int, notes: tuple[str, ...]) -> None: ...

    def stepped(self, step: Step, timing: Timing) -> None: ...

    def looked(self, health: Health) -> None: ...

    def evaluated(self, evaluation: Evaluation) -> None: ...

    def sampled(self, samples: SampledAt) -> None: ...

    def found(self, finding: Finding) -> None: ...


class Nobody:
    """Hears everything and says nothing."""

    def opened(self, data: DataFacts) -> None:
        pass

    def counted(self, ladder: Ladder) -> None:
        pass

    def planned(self, plan: Plan, network: NetworkFacts, folder: str) -> None:
        pass

    def started(self, start: InitialLoss) -> None:
        pass

    def resumed(self, step: int, notes: tuple[str, ...]) -> None:
        pass

    def stepped(self, step: Step, timing: Timing) -> None:
        pass

    def looked(self, health: Health) -> None:
        pass

    def evaluated(self, evaluation: Evaluation) -> None:
        pass

    def sampled(self, samples: SampledAt) -> None:
        pass

    def found(self, finding: Finding) -> None:
        pass
