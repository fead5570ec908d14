"""What every network has, whatever it reads."""

from __future__ import annotations

import copy
from abc import ABC
from typing import Self

from torch import nn

from pellucid.layers.norms import BatchNorm


class Network(nn.Module, ABC):
    """A network that pellucid can train."""

    def for_inference(self) -> Self:
        """The same function in eval mode, perhaps with parts folded into one another; the original stays as it is."""
        return copy.deepcopy(self).eval()

    @property
    def rows_meet(self) -> bool:
        """Whether the rows of a training batch are seen together, as by batch norm.

        Then a batch has to be a fair sample. Items of one length only would be told by their statistics, and the
        network would lean on a length that no statistics tell it when it reads a single item: wavenet's dev loss on
        names was 2.67 with batches by length and 2.01 with mixed ones.
        """
        return any(isinstance(part, BatchNorm | nn.BatchNorm1d | nn.BatchNorm2d) for part in self.modules())

    @property
    def n_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())
