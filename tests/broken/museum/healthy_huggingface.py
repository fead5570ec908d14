"""Public architectures of Hugging Face at tiny sizes. The package is imported when one is built."""

from collections.abc import Callable

import torch
from tests.broken.museum.batches import BATCHES, CLASSES, VOCAB, of_tokens, orders, pictures, sentences
from tests.broken.museum.exhibit import Healthy
from torch import nn
from torch.nn import functional

from pellucid.inspection.instrument.specimen import Specimen


def _of_scores(outputs, targets):
    return functional.cross_entropy(outputs.logits, targets)


def _of_tokens(outputs, targets):
    return of_tokens(outputs.logits, targets)


def _shown(model: nn.Module, batches: list, loss, is_causal: bool | None = None) -> Specimen:
    (inputs, targets), *more = batches
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    return Specimen(model.train(), inputs, targets, loss, optimizer, tuple(more), is_causal)


def _texts() -> list:
    return [((tokens,), targets) for tokens, targets in map(sentences, BATCHES)]


def _orders() -> list:
    return [((tokens,), labels) for tokens, labels in map(orders, BATCHES)]


def gpt2() -> Specimen:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCAB, n_positions=32, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0
    )
    return _shown(GPT2LMHeadModel(config), _texts(), _of_tokens, is_causal=True)


def llama() -> Specimen:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        bos_token_id=0,
        eos_token_id=0,
    )
    return _shown(LlamaForCausalLM(config), _texts(), _of_tokens, is_causal=True)


def gpt_neox() -> Specimen:
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    config = GPTNeoXConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=32,
        bos_token_id=0,
        eos_token_id=0,
    )
    return _shown(GPTNeoXForCausalLM(config), _texts(), _of_tokens, is_causal=True)


def bert() -> Specimen:
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=32,
        num_labels=2,
    )
    return _shown(BertForSequenceClassification(config), _orders(), _of_scores)


def distilbert() -> Specimen:
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    config = DistilBertConfig(
        vocab_size=VOCAB, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=32, num_labels=2
    )
    return _shown(DistilBertForSequenceClassification(config), _orders(), _of_scores)


def vit() -> Specimen:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=8,
        patch_size=4,
        num_channels=1,
        num_labels=CLASSES,
    )
    batches = [((images,), labels) for images, labels in map(pictures, BATCHES)]
    return _shown(ViTForImageClassification(config), batches, _of_scores)


def t5() -> Specimen:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=VOCAB, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0
    )
    batches = []
    for seed in BATCHES:
        source = sentences(seed, time=6)[0].clamp(min=1)
        written = source.flip(1)
        inputs = (source, torch.ones_like(source), functional.pad(written[:, :-1], (1, 0)))
        batches.append((inputs, written))
    return _shown(T5ForConditionalGeneration(config), batches, _of_tokens)


def _named(name: str, build: Callable[[], Specimen]) -> Healthy:
    return Healthy(f"Hugging Face {name}", build, "as published, at a tiny size")


HEALTHY = [
    _named("GPT-2", gpt2),
    _named("Llama", llama),
    _named("GPT-NeoX", gpt_neox),
    _named("BERT", bert),
    _named("DistilBERT", distilbert),
    _named("ViT", vit),
    _named("T5", t5),
]
