"""Runs as they stand now."""

from typing import NamedTuple

RUN_STATES = ("running", "stopped", "finished", "damaged")


class RunCard(NamedTuple):
    """A run in short: what, on what, how far, and its loss beside the best simple model's."""

    name: str
    state: str  # one of RUN_STATES
    kind: str = ""
    model: str = ""
    source: str = ""
    size: str = ""
    parameters: int = 0
    step: int = 0
    steps: int = 0
    loss: float | None = None  # on the side that is judged; of a finished run the network's on all of it
    metric: float | None = None
    metric_name: str = ""
    simple: str = ""  # the best simple model
    simple_loss: float | None = None
    simple_metric: float | None = None
    side: str = "dev"
    unit: str = "nats"
    is_ahead: bool | None = None
    curve: tuple[float, ...] = ()  # the judged loss, evaluation by evaluation
    changed: float = 0.0  # when the folder was last written to, in seconds since 1970
    problem: str = ""  # of a damaged one


class DatasetFacts(NamedTuple):
    """Data that a network can be trained on."""

    name: str
    kind: str
    summary: str
    where: str  # comes (with pellucid), folder (that the lab was started in) or dropped
    n_bytes: int = 0


__all__ = ["RUN_STATES", "DatasetFacts", "RunCard"]
