"""What a network attends to: the weights of every head while it reads one input, as records that can be drawn.

Attention does not make its weights unless it is asked to. Here it is asked, of one input, and everything is computed in
the network's own precision.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.data import Vocabulary
from pellucid.data.prepare import ImagePreparation
from pellucid.data.readers.images import colours_of
from pellucid.errors import PellucidError, quoted
from pellucid.layers.attention import attention_weights
from pellucid.models.contracts import PairModel
from pellucid.models.examples.vit import ViT
from pellucid.models.pairs.decoder_only import PairTransformer
from pellucid.models.pairs.encoder_decoder import Encoder, EncoderDecoder
from pellucid.models.pairs.padding import align_right
from pellucid.models.pairs.rnn_encoder_decoder import RNNEncoderDecoder
from pellucid.models.sequences.hf_causal_lm import HFCausalLM
from pellucid.models.sequences.transformer import CausalSelfAttention, Transformer
from pellucid.models.stepwise import greedy_answers
from pellucid.records import Attended, AttentionMaps, PatchAttention, PatchPositions
from pellucid.records.answers import Matrix, as_matrix
from pellucid.training.inference.language_models import TrainedModel


@torch.no_grad()
def transformer_weights(model: Transformer, tokens: Tensor) -> list[Tensor]:
    """What each head of each block takes of each token: for each block (batch, heads, time, time).

    tokens: (batch, time). The weights are computed from what each attention is called with, beside its fused kernel.

    >>> from pellucid.models.catalogue import find_network
    >>> card = find_network("transformer", "list")
    >>> [each.shape for each in transformer_weights(card.build(card.tiny), torch.tensor([[0, 3, 1]]))]
    [torch.Size([1, 2, 3, 3]), torch.Size([1, 2, 3, 3])]
    """
    found: list[Tensor] = []

    def called(module: nn.Module, args: tuple[Any, ...]) -> None:
        assert isinstance(module, CausalSelfAttention)
        x, angles, bias, _ = args
        queries, keys, _ = module.project_heads(x, angles)
        found.append(attention_weights(queries, keys, bias=bias))

    hooks = [
        module.register_forward_pre_hook(called)
        for module in model.modules()
        if isinstance(module, CausalSelfAttention)
    ]
    try:
        model(tokens)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def text_maps(trained: TrainedModel, text: str) -> AttentionMaps:
    """What a run's transformer attends to in a text; of a longer one than it can read, in its last tokens."""
    model, facts, vocabulary = trained.model.core, trained.facts, trained.vocabulary
    if not isinstance(model, Transformer | HFCausalLM):
        raise PellucidError(
            f"{facts.run} is a run of {facts.name}, which has no attention", fix="Name a run of a transformer, or none"
        )
    tokens = trained.start(vocabulary.encode(text))
    names = _names(vocabulary, tokens)
    weights = _weights_of(model, torch.tensor([tokens]), facts.run)
    made = f"trained on {facts.source.split(':')[0]}" if facts.n_train else "which others made"
    source = f"A {facts.name} of {facts.parameters:,} parameters, {made}"
    if facts.dev is not None:
        source += f" to {facts.dev.nats:.4f} nats on dev"
    return AttentionMaps(
        f"{source}, reads {_spelled(names)}", (Attended("self-attention", names, names, _layers(weights)),)
    )


def _weights_of(model: Transformer | HFCausalLM, tokens: Tensor, run: str) -> list[Tensor]:
    if isinstance(model, Transformer):
        return transformer_weights(model, tokens)
    found = model.attention_weights(tokens)
    if not found:
        raise PellucidError(
            f"{run} is a {model.config.architecture}, whose code does not tell what it attends to",
            fix="Name another run, or none",
        )
    return found


def pair_maps(model: PairModel, vocabulary: Vocabulary, source: Sequence[int], says: str) -> AttentionMaps:
    """What a network for pairs attends to while it reads a source and writes what it answers."""
    sources = torch.tensor([list(source)])
    (answer,) = greedy_answers(model, sources)
    # What an answer ends with is only said, never read; and one without an end is longer than what can be read.
    target = [0, *answer][: model.longest_target + 1]
    read, written = _names(vocabulary, source), _names(vocabulary, target)
    tokens = torch.tensor([target])
    if isinstance(model, PairTransformer):
        row = torch.cat([align_right(sources, model.longest_source), tokens], dim=1)
        names = _names(vocabulary, row[0].tolist())
        parts = [Attended("self-attention", names, names, _layers(transformer_weights(model.network, row)))]
    elif isinstance(model, Encoder):
        maps = model.attention_maps(sources, tokens)["source"]
        # More places than the source has are empty: they ask, and nobody asks them.
        names = (*read, *["·"] * (maps.shape[-1] - len(read)))
        parts = [Attended("self-attention", names, names, _layers(maps))]
    elif isinstance(model, RNNEncoderDecoder):
        cross = model.attention_maps(sources, tokens)["cross"]
        parts = [Attended("what the decoder asks the encoder", written, read, _layers(cross))]
    else:
        assert isinstance(model, EncoderDecoder)
        found = model.attention_maps(sources, tokens)
        parts = [
            Attended("the encoder's self-attention", read, read, _layers(found["source"])),
            Attended("the decoder's self-attention", written, written, _layers(found["target"])),
            Attended("what the decoder asks the encoder", written, read, _layers(found["cross"])),
        ]
    between = "" if vocabulary.kind == "characters" else " "
    said = _spelled(_names(vocabulary, answer), between) if answer else "nothing"
    return AttentionMaps(f"{says} reads {_spelled(read, between)} and writes {said}", tuple(parts))


def _spelled(names: Sequence[str], between: str = "") -> str:
    """The tokens as one text that stands in a sentence, whatever is in it."""
    return quoted(between.join(names), 60)


def _names(vocabulary: Vocabulary, tokens: Sequence[int]) -> tuple[str, ...]:
    return tuple(vocabulary.tokens[token] for token in tokens)


def _layers(weights: Iterable[Tensor]) -> tuple[tuple[Matrix, ...], ...]:
    """Of the first example: by layer and head."""
    return tuple(tuple(as_matrix(head) for head in layer[0]) for layer in weights)


@torch.no_grad()
def patch_positions(model: ViT, says: str) -> PatchPositions:
    """How alike the learned positions of the patches are; that of the class token has no place and is left out."""
    grid = model.config.grid
    where = model.where(grid)
    if where is None:
        raise PellucidError(
            "this vit has no positions", fix="Train one with {positions}", options={"positions": "learned"}
        )
    cosines = similarity(where[1:].double())
    rows_of, columns_of = torch.meshgrid(*(torch.arange(side) for side in grid), indexing="ij")
    places = torch.stack([rows_of.flatten(), columns_of.flatten()], dim=1)
    steps = (places[:, None] - places).abs().sum(-1)  # rows and columns from one to the other
    is_other = ~torch.eye(len(places), dtype=torch.bool)
    return PatchPositions(
        source=says,
        grid=grid,
        cosines=as_matrix(cosines),
        neighbours=float(cosines[steps == 1].mean()),
        others=float(cosines[(steps > 1) & is_other].mean()) if bool((steps > 1).any()) else float("nan"),
    )


@torch.no_grad()
def patch_attention(
    model: ViT, preparation: ImagePreparation, pixels: np.ndarray[Any, Any], says: str, truth: str
) -> PatchAttention:
    """What the class token takes of each patch of one image, in every head, and through all layers.

    pixels: (height, width) or (height, width, 3), 0 to 255, in the network's own size; truth: "" where it is not known.
    """
    numbers = torch.from_numpy(preparation.read(pixels[None])).to(model.class_token)
    maps = model.attention_maps(numbers)  # (depth, 1, heads, tokens, tokens)
    chances = model(numbers, numbers.new_zeros(1, 0)).softmax(-1)[0]
    best = int(chances.argmax())
    return PatchAttention(
        source=says,
        answer=preparation.classes[best],
        probability=float(chances[best]),
        truth=truth,
        pixels=colours_of(pixels),
        grid=model.config.grid,
        layers=tuple(as_matrix(layer[0, :, 0]) for layer in maps),
        rollout=as_matrix(rollout(maps)[0, :1])[0],
    )


def rollout(maps: Tensor) -> Tensor:
    """maps: (depth, batch, heads, n, n), each row summing to one -> (batch, n, n): what each position is made of.

    Abnar and Zuidema 2020, "Quantifying Attention Flow in Transformers": the mean of the heads is what a layer moves,
    and as much again stays where it is, since the layer only adds to the stream: (A + I) / 2. Layers follow one another
    as matrices do. Row i says how much of each input is in position i after the last of them, if values were handed on
    as they are; so it is no measure of what a network would answer without an input.

    >>> half = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    >>> rollout(half.expand(2, 1, 1, 2, 2))
    tensor([[[0.2500, 0.7500],
             [0.0000, 1.0000]]])
    """
    moved = maps.mean(2)
    layers = (moved + torch.eye(maps.shape[-1], dtype=maps.dtype, device=maps.device)) / 2
    through = layers[0]
    for layer in layers[1:]:
        through = layer @ through
    return through


def similarity(vectors: Tensor) -> Tensor:
    """vectors: (n, width) -> (n, n): the cosine of the angle between any two of them.

    Of learned positions it shows what a network found out about neighbourhood without being told.

    >>> similarity(torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, -3.0]]))
    tensor([[ 1.0000,  0.7071,  0.0000],
            [ 0.7071,  1.0000, -0.7071],
            [ 0.0000, -0.7071,  1.0000]])
    """
    directions = functional.normalize(vectors, dim=-1)
    return directions @ directions.T
