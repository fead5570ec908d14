"""The patients of the rule overwritten-places."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _Graph(nn.Module):
    """Sends messages along edges; those that reach one node are added up, or the last one stays."""

    def __init__(self, is_added: bool) -> None:
        super().__init__()
        self.is_added = is_added
        self.message, self.head = nn.Linear(4, 8), nn.Linear(8, 2)
        self.register_buffer("edges", torch.tensor([[0, 1, 2, 3, 4], [1, 2, 1, 1, 0]]))

    def forward(self, nodes: Tensor) -> Tensor:
        source, target = self.edges
        messages = self.message(nodes)[source]
        gathered = messages.new_zeros(len(nodes), 8)
        places = torch.arange(len(nodes))
        gathered[places] = self.message(nodes)
        if self.is_added:
            gathered = gathered.index_add(0, target, messages)
        else:
            gathered[target] += messages
        scores: Tensor = self.head(gathered.tanh())
        return scores


def _patient(is_added: bool) -> Specimen:
    with fixed_rng(0):
        return Specimen(_Graph(is_added), (torch.randn(5, 4),), torch.arange(5) % 2, nn.CrossEntropyLoss())


def sick() -> Specimen:
    return _patient(is_added=False)


def well() -> Specimen:
    return _patient(is_added=True)
