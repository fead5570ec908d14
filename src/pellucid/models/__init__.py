"""One file for each model: its configuration, the model, and its card. The first rungs of the ladder count.

Nothing is loaded until a name below is first used.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pellucid.models.bigram import Bigram, BigramConfig
    from pellucid.models.contract import CountModel, ModelCard
    from pellucid.models.counts import count
    from pellucid.models.ngram import NGram, NGramConfig
    from pellucid.models.search import best_ngram, loss
    from pellucid.models.smoothing import AddS, KneserNey, WittenBell
    from pellucid.models.uniform import Uniform, UniformConfig
    from pellucid.models.unigram import Unigram, UnigramConfig

_DOORS = {
    "AddS": "smoothing",
    "Bigram": "bigram",
    "BigramConfig": "bigram",
    "CountModel": "contract",
    "KneserNey": "smoothing",
    "ModelCard": "contract",
    "NGram": "ngram",
    "NGramConfig": "ngram",
    "Uniform": "uniform",
    "UniformConfig": "uniform",
    "Unigram": "unigram",
    "UnigramConfig": "unigram",
    "WittenBell": "smoothing",
    "best_ngram": "search",
    "count": "counts",
    "loss": "search",
}

__all__ = [
    "AddS",
    "Bigram",
    "BigramConfig",
    "CountModel",
    "KneserNey",
    "ModelCard",
    "NGram",
    "NGramConfig",
    "Uniform",
    "UniformConfig",
    "Unigram",
    "UnigramConfig",
    "WittenBell",
    "best_ngram",
    "count",
    "loss",
]


def __getattr__(name: str) -> object:
    if name not in _DOORS:
        raise AttributeError(f"module 'pellucid.models' has no attribute {name!r}")
    return getattr(importlib.import_module(f"pellucid.models.{_DOORS[name]}"), name)
