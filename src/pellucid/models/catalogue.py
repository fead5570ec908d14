"""Every network in one place: what it is called, which data it reads, its config, its class and how it is best trained.

To add a network, write its file, declare its config, and add a row here. Commands, their options and their help, the
docs, `compare` and the contracts that tests hold every network to follow from the row. Nothing here needs torch: the
class is imported when a network is built.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pellucid.errors import PellucidError, did_you_mean, quoted, require_one_of
from pellucid.models.examples.configs import (
    AutoencoderConfig,
    CNNConfig,
    DeepConfig,
    LogisticConfig,
    ResidualCNNConfig,
    RowMLPConfig,
    TabMConfig,
    ViTConfig,
)
from pellucid.models.pairs.configs import (
    EncoderConfig,
    EncoderDecoderConfig,
    PairTransformerConfig,
    RNNEncoderDecoderConfig,
)
from pellucid.models.sequences.configs import (
    NeuralNGramConfig,
    RecurrentConfig,
    TransformerConfig,
    WavenetConfig,
    WindowMLPConfig,
)
from pellucid.models.sequences.hf_folder import HFCausalLMConfig
from pellucid.records.plain import as_plain, from_plain

SEQUENCES = ("list", "text")
EXAMPLES = ("table", "images")
_PLURALS = {"list": "lists", "text": "texts", "pairs": "pairs", "table": "tables", "images": "images"}


@dataclass(frozen=True)
class Recipe:
    """How a network is best trained, as far as was measured; whoever trains may choose otherwise."""

    optimizer: str = "adamw"
    learning_rate: float = 3e-3
    matrix_learning_rate: float = 0.0  # of Muon, which steps matrices
    batch_size: int = 128
    steps_of_epoch: int = 0  # where examples are few the batch is smaller, so that a pass has about so many steps
    weight_decay: float = 0.01
    clip: float = 1.0
    schedule: str = "linear"
    epochs: float = 10.0  # passes over the training side after which dev was seen to rise again
    dropout: float = 0.0  # where a plan has so many passes that it pays, if the network has dropout
    shift: int = 0  # pixels by which images are moved at random while training


LARGEST_SIZE = 1 << 31  # of any whole number in a stored config


@dataclass(frozen=True)
class NetworkCard:
    """A row of the catalogue. `tiny` is the config that every contract is tried on."""

    name: str
    summary: str
    kinds: tuple[str, ...]  # of data that it reads
    config: type[Any]  # a frozen dataclass; its fields declared by `setting` or `option` are what a user may set
    network: str  # its class, as "module:Class"
    tiny: Any
    recipe: Recipe = field(default_factory=Recipe)
    default_for: tuple[str, ...] = ()  # kinds of data for which it is trained unless another is named
    compared_on: tuple[str, ...] = ()  # kinds of data on which `compare` trains it unless others are named
    skips_padding: bool = False  # computes none, so that batches of a list may hold items of any lengths
    reads_windows: bool = False  # of a text, as long as the context; the others look back that far and read longer ones

    def build(self, config: Any) -> Any:
        """A network of this config, with weights drawn anew: a SequenceModel, an ExampleModel or a PairModel.

        >>> find_network("mlp", "list").build(WindowMLPConfig(vocab_size=27)).n_parameters
        11897
        """
        module, _, name = self.network.partition(":")
        return getattr(importlib.import_module(module), name)(config)

    def of_size(self, size: str, *shape: Any) -> Any:
        """The config of a size for data of this shape.

        shape: vocab_size and context; or ExampleShape; or vocab_size, longest_source and longest_target.
        """
        return self.config.of_size(size, *shape)

    def config_from(self, stored: Mapping[str, object]) -> Any:
        """A config from its stored form. A key that the network does not know is refused, and so is one missing."""
        fields = {one.name: one for one in dataclasses.fields(self.config)}
        for key in stored:
            if key not in fields:
                raise PellucidError(
                    f"{quoted(key)} is no setting of {self.name}",
                    fix=did_you_mean(key, fields, otherwise=f"It has {', '.join(sorted(fields))}"),
                )
        for name in sorted(fields):
            if name not in stored and fields[name].default is dataclasses.MISSING:
                raise PellucidError(f"{name} of {self.name} is missing", fix="Give it a value")
        plain = as_plain(stored)
        try:
            for name, value in plain.items():
                for number in value if isinstance(value, list) else [value]:
                    if isinstance(number, int) and not 0 <= number <= LARGEST_SIZE:
                        raise ValueError(f"{name} cannot be {number:,}"[:60])
            return from_plain(self.config, plain)
        except ValueError as error:
            what = str(error).removeprefix(f"{self.config.__name__}.")
            raise PellucidError(
                f"of the config of {self.name}, {what}", fix="Take it from a copy of the run"
            ) from error


# In the order in which they are compared and listed: the simplest first.
NETWORKS: tuple[NetworkCard, ...] = (
    NetworkCard(
        name="neural-ngram",
        summary="each of the n - 1 tokens before looks up scores for the next one, and they are added",
        kinds=SEQUENCES,
        config=NeuralNGramConfig,
        network="pellucid.models.sequences.windows:NeuralNGram",
        tiny=NeuralNGramConfig(vocab_size=5, n=3),
        recipe=Recipe(learning_rate=0.03, weight_decay=0.0, epochs=4.0),
        compared_on=SEQUENCES,
    ),
    NetworkCard(
        name="mlp",
        summary="the last few tokens as short vectors side by side, read by a network with hidden layers (Bengio 2003)",
        kinds=SEQUENCES,
        config=WindowMLPConfig,
        network="pellucid.models.sequences.windows:WindowMLP",
        tiny=WindowMLPConfig(vocab_size=5, context=3, embedding=4, hidden=16, depth=2, norm="batch"),
        recipe=Recipe("muon", learning_rate=0.01, matrix_learning_rate=0.02, weight_decay=0.0, epochs=6.0),
        compared_on=SEQUENCES,
    ),
    NetworkCard(
        name="wavenet",
        summary="the last tokens fused pair by pair, as a tree, until one vector is left",
        kinds=SEQUENCES,
        config=WavenetConfig,
        network="pellucid.models.sequences.windows:Wavenet",
        tiny=WavenetConfig(vocab_size=5, context=4, embedding=4, hidden=16),
        recipe=Recipe("muon", learning_rate=0.01, matrix_learning_rate=0.02, weight_decay=0.1, epochs=6.0),
        compared_on=SEQUENCES,
    ),
    NetworkCard(
        name="rnn",
        summary="one vector carried from token to token and mixed anew with each",
        kinds=SEQUENCES,
        config=RecurrentConfig,
        network="pellucid.models.sequences.recurrent:RNN",
        tiny=RecurrentConfig(vocab_size=5, width=16, depth=2),
        recipe=Recipe("muon", learning_rate=0.01, matrix_learning_rate=0.02, weight_decay=0.0, epochs=8.0),
        compared_on=SEQUENCES,
        reads_windows=True,
    ),
    NetworkCard(
        name="gru",
        summary="one vector carried from token to token; gates decide what is kept and what is written anew",
        kinds=SEQUENCES,
        config=RecurrentConfig,
        network="pellucid.models.sequences.recurrent:GRU",
        tiny=RecurrentConfig(vocab_size=5, width=16, depth=2),
        recipe=Recipe("muon", learning_rate=0.01, matrix_learning_rate=0.02, weight_decay=0.0, epochs=6.0),
        compared_on=SEQUENCES,
        reads_windows=True,
    ),
    NetworkCard(
        name="lstm",
        summary="a cell carried from token to token that gates let forget, write and speak",
        kinds=SEQUENCES,
        config=RecurrentConfig,
        network="pellucid.models.sequences.recurrent:LSTM",
        tiny=RecurrentConfig(vocab_size=5, width=16, depth=2),
        recipe=Recipe("muon", learning_rate=0.01, matrix_learning_rate=0.02, weight_decay=0.0, epochs=6.0),
        compared_on=SEQUENCES,
        reads_windows=True,
    ),
    NetworkCard(
        name="transformer",
        summary="every token looks back at all before it, and learns which of them matter",
        kinds=SEQUENCES,
        config=TransformerConfig,
        network="pellucid.models.sequences.transformer:Transformer",
        tiny=TransformerConfig(vocab_size=11, context=16, width=16, depth=2, n_heads=2),
        # On names, dev after 4, 8, 12 and 16 epochs, the last three with dropout: 1.913, 1.907, 1.903, 1.900.
        recipe=Recipe("muon", 0.02, matrix_learning_rate=0.02, weight_decay=0.1, epochs=16.0, dropout=0.15),
        default_for=SEQUENCES,
        compared_on=SEQUENCES,
        skips_padding=True,
        reads_windows=True,
    ),
    NetworkCard(
        name="logistic",
        summary="a weighted sum of the columns: logistic regression for classes, linear regression for numbers",
        kinds=EXAMPLES,
        config=LogisticConfig,
        network="pellucid.models.examples.rows:Logistic",
        tiny=LogisticConfig(numbers=(6,), categories=(3, 4), outputs=3),
        recipe=Recipe(learning_rate=0.03, batch_size=32, weight_decay=0.01, epochs=40.0),
        compared_on=EXAMPLES,
    ),
    NetworkCard(
        name="mlp",
        summary="the columns of a row, or the pixels of an image, through hidden layers",
        kinds=EXAMPLES,
        config=RowMLPConfig,
        network="pellucid.models.examples.rows:RowMLP",
        tiny=RowMLPConfig(numbers=(5,), categories=(3, 4), outputs=3, hidden=16, embedding=2, norm="batch"),
        recipe=Recipe(learning_rate=3e-3, batch_size=32, weight_decay=0.3, epochs=30.0, shift=1),
        compared_on=EXAMPLES,
    ),
    NetworkCard(
        name="tabm",
        summary="several MLPs in one over piecewise-linear numbers, which share matrices (TabM, Gorishniy 2024)",
        kinds=("table",),
        config=TabMConfig,
        network="pellucid.models.examples.tabm:TabM",
        tiny=TabMConfig(numbers=(5,), categories=(3, 4), outputs=3, hidden=16, members=3, bins=4, embedding=2),
        recipe=Recipe(
            learning_rate=2e-3, batch_size=256, steps_of_epoch=30, weight_decay=0.01, epochs=50.0, dropout=0.1
        ),
        default_for=("table",),
        compared_on=("table",),
    ),
    NetworkCard(
        name="cnn",
        summary="small windows slide over the image and look for the same thing everywhere",
        kinds=("images",),
        config=CNNConfig,
        network="pellucid.models.examples.cnn:CNN",
        tiny=CNNConfig((1, 8, 8), (), 3, filters=(4, 8), kernels=(3, 3), paddings=(1, 1), pools=(2, 2)),
        # Of 1,797 digits of 8 × 8 this leaves the loss on dev to fall to the end. Without shifts, and with less decay,
        # it is lowest early and by chance, and the weights kept there told 98.6 % of test, where the last ones told
        # 99.1 %.
        recipe=Recipe(learning_rate=1e-2, weight_decay=0.3, epochs=60.0, shift=1),
        compared_on=("images",),
    ),
    NetworkCard(
        name="residual-cnn",
        summary="small filters in blocks that add to what is there, and a mean over the whole image",
        kinds=("images",),
        config=ResidualCNNConfig,
        network="pellucid.models.examples.cnn:ResidualCNN",
        tiny=ResidualCNNConfig(numbers=(1, 8, 8), categories=(), outputs=3, width=4, stages=2, stride=1),
        # Of 20,000 house numbers 6 epochs tell 99.5 to 99.9 %, and 98.2 % without shifts at a third of this rate.
        # Beside the cnn, on dev: 99.2 and 98.5 % of MNIST's digits in 38 and 22 s of a processor, 1.11 and 1.42 nats on
        # 28 scripts in 23 s each; of the styles of icons 40 and 48 %, in another run 39 and 44 %.
        recipe=Recipe(learning_rate=1e-2, weight_decay=0.05, epochs=30.0, shift=1),
        default_for=("images",),
        compared_on=("images",),
    ),
    NetworkCard(
        name="vit",
        summary="an image cut into patches, each of which looks at all others and learns which of them matter",
        kinds=("images",),
        config=ViTConfig,
        network="pellucid.models.examples.vit:ViT",
        tiny=ViTConfig((1, 8, 8), (), 3, patch=4, width=8, depth=2, n_heads=2, hidden=8),
        # Of 8 × 8 digits it tells 98 %, and with twice these rates as many. With patches of 2 pixels and less dropout
        # Muon told 97.4 % and AdamW 94.7 %. Shifted digits are told less well.
        recipe=Recipe("muon", 0.005, matrix_learning_rate=0.01, weight_decay=0.5, epochs=80.0, dropout=0.3),
        compared_on=("images",),
    ),
    NetworkCard(
        name="plain",
        summary="many blocks one after another, F(X) = feat(X): what residual is compared with",
        kinds=EXAMPLES,
        config=DeepConfig,
        network="pellucid.models.examples.rows:Plain",
        tiny=DeepConfig((5,), (3, 4), 3, width=16, depth=3, embedding=2, norm="batch"),
        recipe=Recipe(learning_rate=3e-3, batch_size=32, weight_decay=0.3, epochs=20.0),
        compared_on=("table",),
    ),
    NetworkCard(
        name="residual",
        summary="many blocks that each add to what came in, F(X) = X + feat(X), so that any may be left out",
        kinds=EXAMPLES,
        config=DeepConfig,
        network="pellucid.models.examples.rows:Residual",
        tiny=DeepConfig((5,), (3, 4), 3, width=16, depth=3, embedding=2, norm="batch"),
        recipe=Recipe(learning_rate=3e-3, batch_size=32, weight_decay=0.3, epochs=20.0),
        compared_on=("table",),
    ),
    NetworkCard(
        name="autoencoder",
        summary="the example through a narrow place and out again: what survives is what examples have in common",
        kinds=EXAMPLES,
        config=AutoencoderConfig,
        network="pellucid.models.examples.rows:Autoencoder",
        tiny=AutoencoderConfig(numbers=(5,), categories=(3, 4), outputs=12, latent=4, hidden=16),
        recipe=Recipe(learning_rate=5e-3, batch_size=32, weight_decay=0.01, epochs=100.0),
    ),
    NetworkCard(
        name="rnn-encoder-decoder",
        summary="one recurrent network reads the source, another goes on from its last state and asks for its tokens",
        kinds=("pairs",),
        config=RNNEncoderDecoderConfig,
        network="pellucid.models.pairs.rnn_encoder_decoder:RNNEncoderDecoder",
        tiny=RNNEncoderDecoderConfig(7, longest_source=5, longest_target=4, width=16, depth=2),
        # On 8,000 pairs of a name's first four letters and the rest, dev after 8 and 16 epochs: 1.623 and 1.635; with
        # dropout after 16, 20 and 30: 1.605, 1.616 and 1.636. Without decay reversing had 94 % on dev, with it 100 %.
        recipe=Recipe("muon", 0.01, matrix_learning_rate=0.02, weight_decay=0.1, epochs=20.0, dropout=0.15),
        compared_on=("pairs",),
    ),
    NetworkCard(
        name="encoder-decoder",
        summary="one stack reads the whole source, another writes the target and asks the first at every token",
        kinds=("pairs",),
        config=EncoderDecoderConfig,
        network="pellucid.models.pairs.encoder_decoder:EncoderDecoder",
        tiny=EncoderDecoderConfig(7, longest_source=5, longest_target=4, width=16, depth=2, n_heads=2),
        # On 8,000 pairs of a name's first four letters and the rest, dev after 4, 8 and 16 epochs: 1.778, 1.763 and
        # 1.852; after 16 with dropout 1.728. Sorting, which is never learned by heart, is neither helped nor harmed. Of
        # 16,072 words and their sounds, train and dev were at 0.30 and 0.31 nats a token after 12: not learned out.
        recipe=Recipe("muon", 0.02, matrix_learning_rate=0.02, weight_decay=0.1, epochs=30.0, dropout=0.15),
        default_for=("pairs",),
        compared_on=("pairs",),
    ),
    NetworkCard(
        name="encoder",
        summary="reads the source in both directions and writes the whole target in one pass",
        kinds=("pairs",),
        config=EncoderConfig,
        network="pellucid.models.pairs.encoder_decoder:Encoder",
        tiny=EncoderConfig(7, longest_source=5, longest_target=4, width=16, depth=2, n_heads=2),
        # No dropout: sorting ten symbols it was right on all of dev after 8 epochs without, on 94 % after 16 with 0.15.
        recipe=Recipe("muon", 0.02, matrix_learning_rate=0.02, weight_decay=0.1, epochs=8.0),
        compared_on=("pairs",),
    ),
    NetworkCard(
        name="transformer",
        summary="source and target are one row, read from left to right by one stack of blocks",
        kinds=("pairs",),
        config=PairTransformerConfig,
        network="pellucid.models.pairs.decoder_only:PairTransformer",
        tiny=PairTransformerConfig(7, longest_source=5, longest_target=4, width=16, depth=2, n_heads=2),
        # On 8,000 pairs of a name's first four letters and the rest, dev after 4 and 8 epochs: 1.732 and 1.704; after
        # 16 with dropout 1.678.
        recipe=Recipe("muon", 0.02, matrix_learning_rate=0.02, weight_decay=0.1, epochs=16.0, dropout=0.15),
        compared_on=("pairs",),
    ),
)


# What `pellucid open` makes a run of. It is trained on from where others left it, and never from nothing.
OPENED = NetworkCard(
    name="hf-causal-lm",
    summary="a causal language model that others made, by the code of transformers",
    kinds=("text",),
    config=HFCausalLMConfig,
    network="pellucid.models.sequences.hf_causal_lm:HFCausalLM",
    tiny=HFCausalLMConfig(
        11, 16, "gpt2", {"n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 11}
    ),
    # As pretrained models are usually tuned.
    recipe=Recipe(learning_rate=5e-4, batch_size=16, weight_decay=0.01, epochs=3.0),
    reads_windows=True,
)


def networks_for(kind: str = "") -> dict[str, NetworkCard]:
    """The networks that read this kind of data, by their names, the simplest first.

    >>> list(networks_for("pairs"))
    ['rnn-encoder-decoder', 'encoder-decoder', 'encoder', 'transformer']
    """
    return {card.name: card for card in NETWORKS if kind in card.kinds}


def default_network(kind: str) -> NetworkCard:
    """What is trained on this kind of data unless another is named.

    >>> default_network("images").name
    'residual-cnn'
    """
    return next(card for card in NETWORKS if kind in card.default_for)


def compared_networks(kind: str) -> tuple[str, ...]:
    """The names of what `compare` trains on this kind of data unless others are named."""
    return tuple(card.name for card in NETWORKS if kind in card.compared_on)


def network_names() -> tuple[str, ...]:
    """Every name once, whatever data it reads."""
    return tuple(dict.fromkeys(card.name for card in NETWORKS))


def find_network(name: str, kind: str) -> NetworkCard:
    """The network of this name for this kind of data; another name is refused with the nearest that there is.

    >>> find_network("cnn", "list")
    Traceback (most recent call last):
    pellucid.errors.PellucidError: cnn reads images, and the data are a list. Choose one of neural-ngram, mlp, wavenet,
    rnn, gru, lstm, transformer.
    """
    if name == OPENED.name and kind in SEQUENCES:
        return OPENED
    known = networks_for(kind)
    if name not in known and name in network_names():
        reads = [_PLURALS[other] for other in _PLURALS if name in networks_for(other)]
        data = _PLURALS[kind] if kind in ("pairs", "images") else f"a {kind}"
        raise PellucidError(
            f"{name} reads {' and '.join(reads)}, and the data are {data}", fix=f"Choose one of {', '.join(known)}"
        )
    require_one_of("network", name, known)
    return known[name]


@dataclass(frozen=True)
class PublishedNetwork:
    """A network that papers call by its size, to be looked at and not trained; its numbers as others publish them."""

    name: str
    network: str  # module:class
    parameters: int  # with 1,000 classes
    multiply_adds: float  # of one picture of 224 × 224 pixels, in 10⁹, as torchvision gives them
    settings: Mapping[str, int] = field(default_factory=dict)

    def build(self) -> Any:
        """The network, on whatever device torch makes tensors just now."""
        module, _, name = self.network.partition(":")
        return getattr(importlib.import_module(module), name)(**self.settings)


def _vit(name: str, parameters: int, multiply_adds: float, **settings: int) -> PublishedNetwork:
    network = "pellucid.models.examples.published:PublishedViT"
    return PublishedNetwork(name, network, parameters, multiply_adds, settings)


# Dosovitskiy et al. 2021, table 1, and He et al. 2016, table 1.
PUBLISHED = (
    _vit("ViT-B/32", 88_224_232, 4.409, patch=32, width=768, depth=12, n_heads=12),
    _vit("ViT-B/16", 86_567_656, 17.564, patch=16, width=768, depth=12, n_heads=12),
    _vit("ViT-L/16", 304_326_632, 61.555, patch=16, width=1024, depth=24, n_heads=16),
    _vit("ViT-H/14", 632_045_800, 167.295, patch=14, width=1280, depth=32, n_heads=16),
    PublishedNetwork("ResNet-50", "pellucid.models.examples.published:ResNet50", 25_557_032, 4.089),
)


def find_published(word: str) -> PublishedNetwork | None:
    """The published network of this name, however it is written; None where there is none.

    >>> find_published("vit_b_16").name, find_published("resnet50").name, find_published("vit")
    ('ViT-B/16', 'ResNet-50', None)
    """

    def letters(name: str) -> str:
        return "".join(one for one in name.lower() if one.isalnum())

    return next((one for one in PUBLISHED if letters(one.name) == letters(word)), None)
