"""What a network attends to: the weights of every head while it reads one input, as records that can be drawn.

Attention does not make its weights unless it is asked to. Here it is asked, of one input, and everything is computed in
the network's own precision.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.data import Vocabulary
from pellucid.errors import PellucidError, quoted
from pellucid.layers.attention import Attention, attention_weights
from pellucid.layers.positions import turned
from pellucid.models.exam import rows
from pellucid.models.pairs.answering import answers
from pellucid.models.pairs.contract import PairModel
from pellucid.models.pairs.encoder import Encoder
from pellucid.models.pairs.encoder_decoder import EncoderDecoder
from pellucid.models.pairs.sources import right_aligned
from pellucid.models.pairs.transformer import PairTransformer
from pellucid.models.transformer import Transformer
from pellucid.records import Attended, AttentionMaps
from pellucid.records.attention import Matrix
from pellucid.training.trained import Trained


@torch.no_grad()
def transformer_weights(model: Transformer, tokens: Tensor) -> list[Tensor]:
    """What each head of each block takes of each token: for each block (batch, heads, time, time).

    tokens: (batch, time). The weights are computed from what each attention is called with, beside its fused kernel.

    >>> from pellucid.models.transformer import MODEL
    >>> [each.shape for each in transformer_weights(MODEL.build(MODEL.tiny), torch.tensor([[0, 3, 1]]))]
    [torch.Size([1, 2, 3, 3]), torch.Size([1, 2, 3, 3])]
    """
    found: list[Tensor] = []

    def called(module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        assert isinstance(module, Attention)
        given = inspect.signature(module.forward).bind(*args, **kwargs).arguments
        found.append(_weights(module, given["stream"], given["turns"], given["bias"]))

    hooks = [
        module.register_forward_pre_hook(called, with_kwargs=True)
        for module in model.modules()
        if isinstance(module, Attention)
    ]
    try:
        model(tokens)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def _weights(module: Attention, stream: Tensor, turns: Tensor | None, bias: Tensor | None) -> Tensor:
    batch, time, width = stream.shape
    parts = functional.linear(stream, module.project.view(3 * width, width))
    queries, keys, _ = parts.view(batch, time, 3, module.n_heads, -1).permute(2, 0, 3, 1, 4)
    if turns is not None:
        queries, keys = turned(queries, turns), turned(keys, turns)
    return attention_weights(queries, keys, bias=bias)


def text_maps(trained: Trained, text: str) -> AttentionMaps:
    """What a run's transformer attends to in a text; of a longer one than it can read, in its last tokens."""
    model, facts, vocabulary = trained.model, trained.facts, trained.stored.vocabulary
    if not isinstance(model, Transformer):
        raise PellucidError(
            f"{facts.run} is a run of {facts.name}, which has no attention", fix="Name a run of a transformer, or none"
        )
    tokens = trained.start(vocabulary.encode(text))
    names = _names(vocabulary, tokens)
    weights = transformer_weights(model, torch.tensor([tokens]))
    source = f"A {facts.name} of {facts.parameters:,} parameters, trained on {facts.source.split(':')[0]}"
    if facts.dev is not None:
        source += f" to {facts.dev.nats:.4f} nats on dev"
    return AttentionMaps(
        f"{source}, reads {_spelled(names)}", (Attended("self-attention", names, names, _layers(weights)),)
    )


def pair_maps(model: PairModel, vocabulary: Vocabulary, source: Sequence[int], says: str) -> AttentionMaps:
    """What a network for pairs attends to while it reads a source and writes what it answers."""
    sources = torch.tensor([list(source)])
    (answer,) = answers(model, sources)
    # What an answer ends with is only said, never read; and one without an end is longer than what can be read.
    target = [0, *answer][: model.longest_target + 1]
    read, written = _names(vocabulary, source), _names(vocabulary, target)
    tokens = torch.tensor([target])
    if isinstance(model, PairTransformer):
        row = torch.cat([right_aligned(sources, model.longest_source), tokens], dim=1)
        names = _names(vocabulary, row[0].tolist())
        parts = [Attended("self-attention", names, names, _layers(transformer_weights(model.network, row)))]
    elif isinstance(model, Encoder):
        maps = model.attention_maps(sources, tokens)["source"]
        # More places than the source has are empty: they ask, and nobody asks them.
        names = (*read, *["·"] * (maps.shape[-1] - len(read)))
        parts = [Attended("self-attention", names, names, _layers(maps))]
    else:
        assert isinstance(model, EncoderDecoder)
        found = model.attention_maps(sources, tokens)
        parts = [
            Attended("the encoder's self-attention", read, read, _layers(found["source"])),
            Attended("the decoder's self-attention", written, written, _layers(found["target"])),
            Attended("what the decoder asks the encoder", written, read, _layers(found["cross"])),
        ]
    said = _spelled(_names(vocabulary, answer)) if answer else "nothing"
    return AttentionMaps(f"{says} reads {_spelled(read)} and writes {said}", tuple(parts))


def _spelled(names: Sequence[str]) -> str:
    """The tokens as one text that stands in a sentence, whatever is in it."""
    return quoted("".join(names), 60)


def _names(vocabulary: Vocabulary, tokens: Sequence[int]) -> tuple[str, ...]:
    return tuple(vocabulary.tokens[token] for token in tokens)


def _layers(weights: Iterable[Tensor]) -> tuple[tuple[Matrix, ...], ...]:
    """Of the first example: by layer and head."""
    return tuple(tuple(rows(head) for head in layer[0]) for layer in weights)
