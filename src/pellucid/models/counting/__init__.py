"""Count models: the next token by how often it was seen after those before it; and what a user may set of them.

Nothing here needs torch or NumPy.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pellucid.errors import PellucidError, quoted
from pellucid.options import check_options, option

AUTO = "auto"
COUNT_MODELS = ("uniform", "unigram", "bigram", "ngram")
SMOOTHINGS = ("kneser-ney", "witten-bell", "add", AUTO)
TOKENS = ("characters", "words", "bytes")
# Options of a count model, and the models, or the smoothings of an n-gram, that listen to them.
ONLY_FOR = {
    "n": ("ngram",),
    "smoothing": ("ngram",),
    "s": ("unigram", "bigram", "add"),
    "discount": ("kneser-ney",),
}


@dataclass(frozen=True)
class CountOptions:
    """A count model and its settings."""

    model: str = option("ngram", "Count model.", noun="count model", choices=COUNT_MODELS)
    n: str = option(AUTO, "Order of the n-gram, from 1 to 100; auto takes the best on dev.")
    smoothing: str = option("kneser-ney", "Smoothing of the n-gram; auto takes the best on dev.", choices=SMOOTHINGS)
    s: float = option(
        1.0, "Added to every count (add-s smoothing); 0 adds nothing.", minimum=0, maximum=1e12, example="0.1"
    )
    discount: float = option(
        0.0, "Discount of Kneser-Ney smoothing; estimated if not given.", minimum=0, maximum=1, example="0.75"
    )
    tokens: str = option("characters", "What a token is.", noun="kind of tokens", choices=TOKENS)

    def __post_init__(self) -> None:
        check_options(self)
        if self.n != AUTO and not (self.n.isascii() and self.n.isdigit() and 1 <= int(self.n[:9]) <= 100):
            raise PellucidError(f"n is {quoted(self.n)}", fix="Choose a whole number from 1 to 100, or auto")

    @property
    def order(self) -> int:
        return int(self.n)

    def require_heard(self, names: Iterable[str]) -> None:
        """Refuse an option that was given and that the model does not listen to."""
        listening = {self.model, self.smoothing} if self.model == "ngram" else {self.model}
        for name in names:
            if name in ONLY_FOR and not listening & set(ONLY_FOR[name]):
                what = f"{self.model} with {self.smoothing}" if self.model == "ngram" else self.model
                raise PellucidError(
                    f"{{{name}}} changes nothing for {what}",
                    fix=f"Leave it out, or choose {' or '.join(ONLY_FOR[name])}",
                    options={name: None},
                )
