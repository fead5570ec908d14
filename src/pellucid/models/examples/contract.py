"""What every network for rows and images answers,."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from pellucid.models.network import Network


class ExampleModel(Network):
    """A network that reads one example at a time; in a batch none sees another, unless by batch norm in training."""

    @abstractmethod
    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """numbers: (batch, features) or (batch, channels, height, width); codes: (batch, columns) -> scores.

        Scores are (batch, outputs). An image has no categories, and its codes are (batch, 0).
        """


class Reconstructor(ExampleModel):
    """A network whose answer is the example itself, gone through a narrow place."""

    @abstractmethod
    def wanted(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """The example as one row of numbers, (batch, features): what `forward` should give back."""

    @abstractmethod
    def latent(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """What is left of the example in the narrow place: (batch, latent)."""
