"""A hidden layer: linear, norm, activation."""

from torch import Tensor, nn

from pellucid.layers.activations import activation
from pellucid.layers.norms import BatchNorm, folded, normalisation


class Hidden(nn.Module):
    """x: (..., inputs) -> (..., outputs).

    scale: the deviation that pre-activations have at first, for inputs of mean square 1. Over another layer's
    activations it is that activation's gain, which makes up for what the activation took.

    >>> Hidden(6, 4, norm="batch").linear.bias is None
    True
    """

    def __init__(
        self, inputs: int, outputs: int, scale: float = 1.0, function: str = "tanh", norm: str = "none", groups: int = 1
    ) -> None:
        super().__init__()
        # Batch norm takes the mean away, and a bias with it: it would never get a gradient.
        self.linear = nn.Linear(inputs, outputs, bias=norm != "batch")
        self.norm = normalisation(norm, outputs, groups)
        self.activation = activation(function)
        nn.init.normal_(self.linear.weight, std=scale * inputs**-0.5)
        if self.linear.bias is not None:
            nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.activation(self.norm(self.linear(x)))
        return y

    def fold(self) -> None:
        """Let the linear layer do the work of its batch norm, as it is in eval mode. Other norms stay."""
        if isinstance(self.norm, BatchNorm):
            self.linear, self.norm = folded(self.linear, self.norm), nn.Identity()


def head(inputs: int, vocab_size: int, scale: float) -> nn.Linear:
    """The last linear layer, a tenth of the deviation that `scale` would give: no token is much likelier at first.

    So the first loss is ln |V| and hardly above it, and training need not begin by unlearning what chance drew.
    """
    linear = nn.Linear(inputs, vocab_size)
    nn.init.normal_(linear.weight, std=0.1 * scale * inputs**-0.5)
    nn.init.zeros_(linear.bias)
    return linear
