"""A network of pairs as a Hugging Face folder.

    encoder-decoder     pegasus, for AutoModelForSeq2SeqLM
    encoder             megatron-bert, for AutoModelForTokenClassification: the label of a place is the target's token

Pegasus and ours both normalise what each part reads and what comes out at the end, have biases and ReLU, and a head of
its own with a bias. T5 has no biases, Marian no norm at the end. Pegasus adds a table of positions, which is read from
the file: whatever ours adds is written there. Tokens are letters; the boundary opens the target, ends it, and fills up
sources.

BERT normalises after each part, RoBERTa-PreLayerNorm its embeddings too. Megatron's BERT does neither: its norms are
where ours are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pellucid.errors import PellucidError
from pellucid.models.sequences.hf_folder import quiet_transformers
from pellucid.records import ExportCheck
from pellucid.runs import Run

if TYPE_CHECKING:
    from torch import Tensor, nn

    from pellucid.export.subject import Subject
    from pellucid.models.pairs.encoder_decoder import Encoder, EncoderDecoder, Stack

PEGASUS, MEGATRON = "pegasus", "megatron-bert"
ARCHITECTURES = {"encoder-decoder": ("Pegasus", PEGASUS), "encoder": ("Megatron-BERT", MEGATRON)}
# What of the others no architecture of transformers has.
ODD_PARTS = {
    "transformer": "fills up its sources on the left and reads what fills them, which a tokenizer of hf masks",
    "rnn-encoder-decoder": "reads and writes with recurrences, and hf has no encoder-decoder of those",
}
POSITIONS = ("sinusoidal", "learned", "index", "none")
N_ANSWERS = 10  # greedy ones that are compared


def refuse_pairs(run: Run) -> None:
    """Refuse a network of pairs that is neither Pegasus nor Megatron's BERT, naming what is different."""
    shown, _ = ARCHITECTURES.get(run.model, ("", ""))
    if not shown:
        why = f"{run.name} {ODD_PARTS.get(run.model, 'computes what no architecture of hf does')}"
    elif (form := run.config.get("form", "pre")) != "pre":
        why = f"{run.name} has blocks of the form {form}, and {shown} has the norm before each part"
    elif (found := run.config.get("positions", POSITIONS[0])) not in POSITIONS:
        why = f"{run.name} has {found} positions, and {shown} holds {', '.join(POSITIONS)}"
    elif (kind := run.read_json("vocabulary.json").get("kind")) != "characters":
        written = {"letters-to-words": "in words", "letters-to-changes": "as changes of sources"}.get(str(kind), kind)
        why = f"{run.name} writes its targets {written}, and a tokenizer of hf reads and writes the same tokens"
    else:
        return
    raise PellucidError(why, fix="Export it to onnx or torch")


def pegasus_config(model: EncoderDecoder) -> dict[str, Any]:
    """config.json of the network as `PegasusForConditionalGeneration`."""
    own = model.config
    hidden: Any = model.encoder.blocks[0].feed_forward
    sides: dict[str, Any] = {}
    for side in ("encoder", "decoder"):
        sides |= {
            f"{side}_layers": own.depth,
            f"{side}_attention_heads": own.n_heads,
            f"{side}_ffn_dim": hidden.expand.out_features,
        }
    return {
        "architectures": ["PegasusForConditionalGeneration"],
        "model_type": PEGASUS,
        "vocab_size": own.vocab_size,
        "d_model": own.width,
        **sides,
        "max_position_embeddings": _n_places(model),
        "activation_function": "relu",
        "scale_embedding": False,
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "is_encoder_decoder": True,
        "tie_word_embeddings": False,
        **_token_ids(),
        "dtype": "float32",
    }


def _token_ids() -> dict[str, Any]:
    return {
        "bos_token_id": None,
        "eos_token_id": 0,
        "pad_token_id": 0,
        "decoder_start_token_id": 0,
        "forced_eos_token_id": None,
    }


def _n_places(model: EncoderDecoder) -> int:
    return max(model.encoder.longest, model.decoder.longest)


def pegasus_tensors(model: EncoderDecoder) -> dict[str, Tensor]:
    """The weights under the names of `PegasusForConditionalGeneration`."""
    embedding = model.embedding.weight
    found = {
        "model.shared.weight": embedding,
        "lm_head.weight": model.head.weight,
        "final_logits_bias": model.head.bias[None],
    }
    for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        at = f"model.{side}"
        found |= {
            f"{at}.embed_tokens.weight": embedding,
            f"{at}.embed_positions.weight": _places(stack, _n_places(model), embedding),
            **_linear(f"{at}.layer_norm", stack.norm),
        }
        for number, block in enumerate(list[Any](stack.blocks)):
            layer = f"{at}.layers.{number}"
            found |= {
                **_attention(f"{layer}.self_attn", block.attention),
                **_linear(f"{layer}.self_attn_layer_norm", block.attention_norm),
                **_linear(f"{layer}.fc1", block.feed_forward.expand),
                **_linear(f"{layer}.fc2", block.feed_forward.contract),
                **_linear(f"{layer}.final_layer_norm", block.feed_forward_norm),
            }
            if side == "decoder":
                found |= _attention(f"{layer}.encoder_attn", block.memory_attention)
                found |= _linear(f"{layer}.encoder_attn_layer_norm", block.memory_norm)
    return found


def _places(stack: Stack, n_places: int, like: Tensor) -> Tensor:
    """What is added to the embeddings at each place; nothing where the stack has no such place."""
    table = like.new_zeros(n_places, like.shape[1])
    found = stack.positions.embeddings(0, stack.longest)
    if found is not None:
        table[: stack.longest] = found.detach()
    return table


def megatron_config(model: Encoder, subject: Subject) -> dict[str, Any]:
    """config.json of the network as `MegatronBertForTokenClassification`."""
    from pellucid.export.tokenizer import BOUNDARY

    own, hidden = model.config, cast("Any", model.encoder.blocks[0]).feed_forward
    labels = [BOUNDARY, *subject.pair_vocabulary.tokens[1:]]
    return {
        "architectures": ["MegatronBertForTokenClassification"],
        "model_type": MEGATRON,
        "vocab_size": own.vocab_size,
        "hidden_size": own.width,
        "num_hidden_layers": own.depth,
        "num_attention_heads": own.n_heads,
        "intermediate_size": hidden.expand.out_features,
        "hidden_act": "relu",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": model.encoder.longest,
        "type_vocab_size": 1,
        "layer_norm_eps": model.encoder.norm.eps,
        "tie_word_embeddings": False,
        "pad_token_id": 0,
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
        "dtype": "float32",
    }


def megatron_tensors(model: Encoder) -> dict[str, Tensor]:
    """The weights under the names of `MegatronBertForTokenClassification`."""
    embedding, stack = model.embedding.weight, model.encoder
    found = {
        "bert.embeddings.word_embeddings.weight": embedding,
        "bert.embeddings.position_embeddings.weight": _places(stack, stack.longest, embedding),
        "bert.embeddings.token_type_embeddings.weight": embedding.new_zeros(1, embedding.shape[1]),
        **_linear("bert.encoder.ln", stack.norm),
        **_linear("classifier", model.head),
    }
    names = {"q": "self.query", "k": "self.key", "v": "self.value", "out": "output.dense"}
    for number, block in enumerate(list[Any](stack.blocks)):
        layer = f"bert.encoder.layer.{number}"
        found |= {
            **_attention(f"{layer}.attention", block.attention, names),
            **_linear(f"{layer}.attention.ln", block.attention_norm),
            **_linear(f"{layer}.intermediate.dense", block.feed_forward.expand),
            **_linear(f"{layer}.output.dense", block.feed_forward.contract),
            **_linear(f"{layer}.ln", block.feed_forward_norm),
        }
    return found


def _linear(name: str, layer: nn.Module) -> dict[str, Tensor]:
    return {f"{name}.{part}": tensor for part, tensor in layer.state_dict().items()}


PEGASUS_PARTS = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "out": "out_proj"}


def _attention(name: str, attention: Any, names: Mapping[str, str] = PEGASUS_PARTS) -> dict[str, Tensor]:
    matrices, shifts = attention.project.detach(), attention.shift.detach().chunk(3)
    found = _linear(f"{name}.{names['out']}", attention.combine)
    for part, matrix, shift in zip("qkv", matrices, shifts, strict=True):
        found |= {f"{name}.{names[part]}.weight": matrix, f"{name}.{names[part]}.bias": shift}
    return found


def write_tokenizer(subject: Subject, folder: Path) -> None:
    """Letters as they are, with nothing put before a source or behind it."""
    from pellucid.data.vocabularies import Characters
    from pellucid.export.tokenizer import BOUNDARY, build_tokenizer

    stored = json.loads(build_tokenizer(Characters(subject.pair_vocabulary.tokens[1:])).to_str())
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": _longest_read(subject),
        "clean_up_tokenization_spaces": False,
        "eos_token": BOUNDARY,
        "pad_token": BOUNDARY,
    }
    for name, content in (("tokenizer.json", {**stored, "post_processor": None}), ("tokenizer_config.json", config)):
        (folder / name).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _longest_read(subject: Subject) -> int:
    """Tokens that are given at once: to an encoder as many as it has places, since those past a source are written."""
    model: Any = subject.model
    return int(model.encoder.longest if subject.run.model == "encoder" else subject.run.config["longest_source"])


def generation_config(model: EncoderDecoder) -> dict[str, Any]:
    return {**_token_ids(), "max_length": model.longest_target + 2, "num_beams": 1, "do_sample": False}


def check_pairs(subject: Subject, folder: Path) -> ExportCheck:
    """Load the folder with transformers, and compare logits, sources as tokens and back, and greedy answers."""
    import torch
    import transformers

    from pellucid.export.subject import ALLOWED, N_INPUTS, largest_difference

    with quiet_transformers():
        network: Any = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, local_files_only=True)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    network.eval()
    found, reads, says, n_answers = 0.0, True, True, 0
    vocabulary, longest = subject.pair_vocabulary, int(subject.run.config["longest_target"])
    with torch.inference_mode(), quiet_transformers():
        for (sources, tokens), wanted in subject.answers():
            given = {"input_ids": sources, "attention_mask": (sources != 0).long()}
            found = max(found, largest_difference(network(**given, decoder_input_ids=tokens).logits, wanted))
            text = vocabulary.decode(sources[0].tolist())
            ids = tokenizer(text)["input_ids"]
            reads &= ids == vocabulary.encode(text) and tokenizer.decode(ids) == text
            if n_answers < N_ANSWERS:
                n_answers += 1
                said = network.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long))
                says &= _follows(subject, torch.tensor([ids]), said[0].tolist()[1 : longest + 2])
    return ExportCheck(f"transformers {transformers.__version__}", N_INPUTS, found, ALLOWED, reads, says)


def check_labels(subject: Subject, folder: Path) -> ExportCheck:
    """Load the folder of an encoder with transformers, and compare scores, sources as tokens and back, and answers."""
    import torch
    import transformers

    from pellucid.export.subject import ALLOWED, N_INPUTS, largest_difference

    with quiet_transformers():
        network: Any = transformers.AutoModelForTokenClassification.from_pretrained(folder, local_files_only=True)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    network.eval()
    found, reads, vocabulary = 0.0, True, subject.pair_vocabulary
    n_places = _longest_read(subject)
    with torch.inference_mode():
        for (sources, tokens), wanted in subject.answers():
            places = torch.nn.functional.pad(sources, (0, n_places - sources.shape[1]))
            scores = network(input_ids=places, attention_mask=(places != 0).long()).logits
            found = max(found, largest_difference(scores[:, : tokens.shape[1]], wanted))
            text = vocabulary.decode(sources[0].tolist())
            given = tokenizer(text, padding="max_length", return_tensors="pt", return_token_type_ids=False)
            ids = given["input_ids"][0].tolist()
            reads &= ids == [*vocabulary.encode(text), *[0] * (n_places - len(text))]
            # What the tokenizer gives, mask and all, is what the network was compared on.
            found = max(found, largest_difference(network(**given).logits[0, : tokens.shape[1]], wanted[0]))
    return ExportCheck(f"transformers {transformers.__version__}", N_INPUTS, found, ALLOWED, reads, None)


def _follows(subject: Subject, source: Tensor, said: list[int]) -> bool:
    """Whether each token that was said is the likeliest, or as good as the likeliest, for the network itself."""
    import torch

    from pellucid.export.subject import ALLOWED

    scores = subject.original(source, torch.tensor([[0, *said][:-1]]))[0]  # (time, vocab)
    chosen = scores.gather(1, torch.tensor(said)[:, None])[:, 0]
    return bool((scores.max(dim=1).values - chosen <= 2 * ALLOWED).all())


def use_pairs(subject: Subject, folder: Path) -> tuple[str, ...]:
    if subject.run.model == "encoder":
        return (
            "from transformers import AutoModelForTokenClassification, AutoTokenizer",
            f'model = AutoModelForTokenClassification.from_pretrained("{folder}")',
            f'tokenizer = AutoTokenizer.from_pretrained("{folder}")',
            'given = tokenizer("...", padding="max_length", return_tensors="pt", return_token_type_ids=False)',
            "labels = [*model(**given).logits[0].argmax(-1).tolist(), 0]",
            '"".join(model.config.id2label[label] for label in labels[: labels.index(0)])',
        )
    return (
        "from transformers import AutoModelForSeq2SeqLM, AutoTokenizer",
        f'model = AutoModelForSeq2SeqLM.from_pretrained("{folder}")',
        f'tokenizer = AutoTokenizer.from_pretrained("{folder}")',
        'answer = model.generate(**tokenizer("...", return_tensors="pt", return_token_type_ids=False))[0]',
        "tokenizer.decode(answer, skip_special_tokens=True)",
    )
