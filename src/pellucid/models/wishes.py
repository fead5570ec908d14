"""What a user may ask of a count model. Nothing heavy, so that a bad wish is refused at once."""

import math
from dataclasses import dataclass

from pellucid.errors import PellucidError, quoted, require_one_of

AUTO = "auto"
MODELS = ("uniform", "unigram", "bigram", "ngram")
NETWORKS = ("neural-ngram", "mlp", "wavenet", "rnn", "gru", "lstm", "transformer")
TABLE_NETWORKS = ("logistic", "mlp", "plain", "residual", "autoencoder")
IMAGE_NETWORKS = ("logistic", "mlp", "cnn", "residual-cnn", "vit", "autoencoder", "plain", "residual")
EXAMPLE_NETWORKS = IMAGE_NETWORKS  # what reads a row also reads the pixels of an image, one after another
PAIR_NETWORKS = ("encoder-decoder", "encoder", "transformer")
SMOOTHINGS = ("kneser-ney", "witten-bell", "add", AUTO)
TOKENS = ("characters", "words", "bytes")
UNKNOWN = ("error", "skip")


@dataclass(frozen=True)
class Wishes:
    """A model and its settings, as they were asked for. n: a number or "auto", which is chosen on dev."""

    model: str = "ngram"
    n: str = AUTO
    smoothing: str = "kneser-ney"
    s: float = 1.0
    discount: float = 0.0
    tokens: str = "characters"

    def __post_init__(self) -> None:
        require_one_of("model", self.model, MODELS)
        require_one_of("smoothing", self.smoothing, SMOOTHINGS)
        require_one_of("kind of tokens", self.tokens, TOKENS)
        if self.n != AUTO and not (self.n.isascii() and self.n.isdigit() and 1 <= int(self.n[:9]) <= 100):
            raise PellucidError(f"n is {quoted(self.n)}", fix="Choose a whole number from 1 to 100, or auto")
        if not (math.isfinite(self.s) and self.s >= 0):
            raise PellucidError(f"s is {self.s:g}", fix="Choose a finite number of 0 or more, such as 0.1")
        if not 0 <= self.discount <= 1:
            raise PellucidError(f"the discount is {self.discount:g}", fix="Choose one above 0, at most 1, such as 0.75")

    @property
    def order(self) -> int:
        return int(self.n)
