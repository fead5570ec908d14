"""More public architectures of Hugging Face, added when the rules stood. The package is imported when one is built."""

from collections.abc import Callable
from typing import Any

import torch
from tests.broken.museum.batches import BATCHES, CLASSES, VOCAB, of_tokens, orders, pictures, sentences
from tests.broken.museum.exhibit import Healthy
from torch.nn import functional

from pellucid.inspection.instrument.specimen import Specimen

# What most of them call the same.
USUAL = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
BOUNDARY = {"bos_token_id": 0, "eos_token_id": 0}
SHORT = {"vocab_size": VOCAB, "hidden_size": 32}

READERS = {  # score the next token
    "OPT": {**USUAL, **BOUNDARY, "ffn_dim": 64, "word_embed_proj_dim": 32, "pad_token_id": 1},
    "Bloom": {**SHORT, **BOUNDARY, "n_layer": 2, "n_head": 4},
    "Mistral": {**USUAL, **BOUNDARY, "num_key_value_heads": 2, "sliding_window": 4},
    "Qwen2": {**USUAL, **BOUNDARY, "num_key_value_heads": 2},
    "Gemma": {**USUAL, **BOUNDARY, "num_key_value_heads": 1, "head_dim": 8, "pad_token_id": 0},
    "Mixtral": {**USUAL, **BOUNDARY, "num_key_value_heads": 2, "num_local_experts": 4},
    "Phi": {**USUAL, **BOUNDARY, "pad_token_id": None},
    "Mamba": {**SHORT, **BOUNDARY, "num_hidden_layers": 2, "state_size": 8, "pad_token_id": 0},
    "Falcon": {**SHORT, **BOUNDARY, "num_hidden_layers": 2, "num_attention_heads": 4},
}
ENCODERS = {  # one class for a text
    "Roberta": {**USUAL, **BOUNDARY, "pad_token_id": 0},
    "Electra": {**USUAL, "embedding_size": 16, "pad_token_id": 0},
    "Albert": {**USUAL, **BOUNDARY, "embedding_size": 16, "pad_token_id": 0},
    "DebertaV2": {**USUAL, "pad_token_id": 0, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "FNet": {**USUAL, **BOUNDARY, "pad_token_id": 0},
}
IMAGES = {  # one class for an image, and how large the image is
    "ResNet": (32, {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}),
    "ConvNext": (32, {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "patch_size": 2}),
    "Swin": (
        32,
        {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4},
    ),
    "DeiT": (
        16,
        {"image_size": 16, "patch_size": 4, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    ),
}
BART = {
    **{
        f"{side}_{what}": size
        for side in ("encoder", "decoder")
        for what, size in (("layers", 1), ("attention_heads", 4))
    },
    "vocab_size": VOCAB,
    "d_model": 32,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 32,
    **BOUNDARY,
    "pad_token_id": 0,
    "decoder_start_token_id": 0,
    "forced_eos_token_id": 0,
}


def _shown(name: str, kind: str, settings: dict[str, Any], batches: list, loss, is_causal: bool | None) -> Specimen:
    import transformers

    model = getattr(transformers, f"{name}For{kind}")(getattr(transformers, f"{name}Config")(**settings)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    (inputs, targets), *more = batches
    return Specimen(model, inputs, targets, loss, optimizer, tuple(more), is_causal)


def _of_tokens(outputs, targets):
    return of_tokens(outputs.logits, targets)


def _of_classes(outputs, targets):
    return functional.cross_entropy(outputs.logits, targets)


def reader(name: str) -> Callable[[], Specimen]:
    batches = [((tokens,), targets) for tokens, targets in map(sentences, BATCHES)]
    return lambda: _shown(name, "CausalLM", READERS[name], batches, _of_tokens, is_causal=True)


def encoder(name: str) -> Callable[[], Specimen]:
    batches = [((tokens,), labels) for tokens, labels in map(orders, BATCHES)]
    settings = {**ENCODERS[name], "num_labels": 2}
    return lambda: _shown(name, "SequenceClassification", settings, batches, _of_classes, None)


def of_images(name: str) -> Callable[[], Specimen]:
    size, settings = IMAGES[name]
    batches = [((functional.interpolate(images, size=size),), labels) for images, labels in map(pictures, BATCHES)]
    wanted = {**settings, "num_labels": CLASSES, "num_channels": 1}
    return lambda: _shown(name, "ImageClassification", wanted, batches, _of_classes, None)


def bart() -> Specimen:
    batches = []
    for seed in BATCHES:
        source = sentences(seed, time=6)[0].clamp(min=1)
        read = functional.pad(source.flip(1)[:, :-1], (1, 0))
        batches.append(((source, torch.ones_like(source), read), source.flip(1)))
    return _shown("Bart", "ConditionalGeneration", BART, batches, _of_tokens, None)


HEALTHY = [
    Healthy(f"Hugging Face {name}", build, "as published, at a tiny size")
    for name, build in (
        *((name, reader(name)) for name in READERS),
        *((name, encoder(name)) for name in ENCODERS),
        *((name, of_images(name)) for name in IMAGES),
        ("Bart", bart),
    )
]
