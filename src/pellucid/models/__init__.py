"""One file for each model: its configuration, the model, and its card. The first rungs count, the others learn.
What reads rows and images is in `examples`, what reads pairs in `pairs`.

Nothing is loaded until a name below is first used.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pellucid.models.bigram import Bigram, BigramConfig
    from pellucid.models.contract import CountModel, ModelCard
    from pellucid.models.counts import count
    from pellucid.models.examples.contract import (
        ExampleCard,
        ExampleModel,
        Inputs,
        Reconstructor,
        example_network_called,
        example_networks,
    )
    from pellucid.models.gru import GRU, GRUConfig
    from pellucid.models.lstm import LSTM, LSTMConfig
    from pellucid.models.mlp import MLP, MLPConfig
    from pellucid.models.network import Recipe
    from pellucid.models.neural import NeuralCard, SequenceModel, network_called, networks
    from pellucid.models.neural_ngram import NeuralNGram, NeuralNGramConfig
    from pellucid.models.ngram import NGram, NGramConfig
    from pellucid.models.pairs.contract import PairCard, PairModel, pair_network_called, pair_networks
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
    "ExampleCard": "examples.contract",
    "ExampleModel": "examples.contract",
    "GRU": "gru",
    "GRUConfig": "gru",
    "Inputs": "examples.contract",
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
    "PairCard": "pairs.contract",
    "PairModel": "pairs.contract",
    "RNN": "rnn",
    "RNNConfig": "rnn",
    "Recipe": "network",
    "Reconstructor": "examples.contract",
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
    "example_network_called": "examples.contract",
    "example_networks": "examples.contract",
    "loss": "search",
    "network_called": "neural",
    "networks": "neural",
    "pair_network_called": "pairs.contract",
    "pair_networks": "pairs.contract",
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
    "ExampleCard",
    "ExampleModel",
    "GRUConfig",
    "Inputs",
    "KneserNey",
    "LSTMConfig",
    "MLPConfig",
    "ModelCard",
    "NGram",
    "NGramConfig",
    "NeuralCard",
    "NeuralNGram",
    "NeuralNGramConfig",
    "PairCard",
    "PairModel",
    "RNNConfig",
    "Recipe",
    "Reconstructor",
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
    "example_network_called",
    "example_networks",
    "loss",
    "network_called",
    "networks",
    "pair_network_called",
    "pair_networks",
]


def __getattr__(name: str) -> object:
    if name not in _DOORS:
        raise AttributeError(f"module 'pellucid.models' has no attribute {name!r}")
    return getattr(importlib.import_module(f"pellucid.models.{_DOORS[name]}"), name)
