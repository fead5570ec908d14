"""A simple model for rows and images as a rung of the ladder, measured as the networks are."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from pellucid.records import Rung
from pellucid.training.measures import accuracy, log_loss, r_squared
from pellucid.training.simple import SimpleModel, one_rows
from pellucid.training.task import Measured

if TYPE_CHECKING:
    from pellucid.training.example_task import ExampleTask


@dataclass(frozen=True)
class SimpleRung:
    """A model of scikit-learn on a task."""

    task: ExampleTask
    model: SimpleModel

    @cached_property
    def rung(self) -> Rung:
        began = time.perf_counter()
        train, dev = (self._measured(side) for side in ("train", "dev"))
        return Rung(
            name=self.model.name,
            is_counted=True,
            parameters=self.model.n_parameters,
            train=train.loss,
            dev=dev.loss,
            test=None,
            bits_per_character=math.nan,
            seconds=self.model.seconds + time.perf_counter() - began,
            tokens_per_second=None,
            metric=dev.metric,
        )

    def with_test(self) -> Rung:
        if not len(self.task.sides.test):
            return self.rung
        test = self._measured("test")
        return self.rung._replace(test=test.loss, test_metric=test.metric)

    def _measured(self, side: str) -> Measured:
        examples = self.task.examples(side)
        answered = self.model.answers(examples)
        if self.task.sides.task == "classification":
            return Measured(log_loss(answered, examples.targets), accuracy(answered, examples.targets))
        is_whole = self.task.sides.task == "reconstruction"
        sizes = self.task.sides.preparation.category_sizes
        targets = one_rows(examples, sizes) if is_whole else examples.targets
        return Measured(float(np.mean((answered - targets) ** 2)), r_squared(answered, targets))
