"""One file for each model: its configuration, the model, and its card. The first rungs count, the others learn.

Nothing is loaded until a name below is first used.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pellucid.models.bigram import Bigram, BigramConfig
    from pellucid.models.contract import CountModel, ModelCard
    from pellucid.models.counts import count
    from pellucid.models.gru import GRU, GRUConfig
    from pellucid.models.lstm import LSTM, LSTMConfig
    from pellucid.models.mlp import MLP, MLPConfig
    from pellucid.models.neural import NeuralCard, Recipe, SequenceModel, network_called, networks
    from pellucid.models.neural_ngram import NeuralNGram, NeuralNGramConfig
    from pellucid.models.ngram import NGram, NGramConfig
    from pellucid.models.rnn import RNN, RNNConfig
    from pellucid.models.search import best_ngram, loss
    from pellucid.models.smoothing import AddS, KneserNey, WittenBell
    from pellucid.models.transformer import Transformer, TransformerConfig
    from pellucid.models.uniform import Uniform, UniformConfig
    from pellucid.models.unigram import Unigram, UnigramConfig
    from pellucid.models.wavenet import Wavenet, WavenetConfig

_DOORS = {
    "AddS": "smoothing",
    "Bigram": "bigram",
    "BigramConfig": "bigram",
    "CountModel": "contract",
    "GRU": "gru",
    "GRUConfig": "gru",
    "KneserNey": "smoothing",
    "LSTM": "lstm",
    "LSTMConfig": "lstm",
    "MLP": "mlp",
    "MLPConfig": "mlp",
    "ModelCard": "contract",
    "NGram": "ngram",
    "NGramConfig": "ngram",
    "NeuralCard": "neural",
    "NeuralNGram": "neural_ngram",
    "NeuralNGramConfig": "neural_ngram",
    "RNN": "rnn",
    "RNNConfig": "rnn",
    "Recipe": "neural",
    "SequenceModel": "neural",
    "Transformer": "transformer",
    "TransformerConfig": "transformer",
    "Uniform": "uniform",
    "UniformConfig": "uniform",
    "Unigram": "unigram",
    "UnigramConfig": "unigram",
    "Wavenet": "wavenet",
    "WavenetConfig": "wavenet",
    "WittenBell": "smoothing",
    "best_ngram": "search",
    "count": "counts",
    "loss": "search",
    "network_called": "neural",
    "networks": "neural",
}

__all__ = [
    "GRU",
    "LSTM",
    "MLP",
    "RNN",
    "AddS",
    "Bigram",
    "BigramConfig",
    "CountModel",
    "GRUConfig",
    "KneserNey",
    "LSTMConfig",
    "MLPConfig",
    "ModelCard",
    "NGram",
    "NGramConfig",
    "NeuralCard",
    "NeuralNGram",
    "NeuralNGramConfig",
    "RNNConfig",
    "Recipe",
    "SequenceModel",
    "Transformer",
    "TransformerConfig",
    "Uniform",
    "UniformConfig",
    "Unigram",
    "UnigramConfig",
    "Wavenet",
    "WavenetConfig",
    "WittenBell",
    "best_ngram",
    "count",
    "loss",
    "network_called",
    "networks",
]


def __getattr__(name: str) -> object:
    if name not in _DOORS:
        raise AttributeError(f"module 'pellucid.models' has no attribute {name!r}")
    return getattr(importlib.import_module(f"pellucid.models.{_DOORS[name]}"), name)
