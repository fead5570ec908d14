"""A Hugging Face folder that transformers loads with its own code: AutoModelForCausalLM and AutoTokenizer.

    rotary positions                      nemotron: ReLU², layer norms, no biases
    learned, sinusoidal, index, none      gpt2, with ReLU² and all biases 0; what is not learned is written as a table
    pairs                                 pegasus or megatron-bert, see hf_pairs.py

Of rotary positions nemotron turns the first half of a head with the second, where we turn neighbours: the rows of
queries and keys are put in that order, which changes no product of the two.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.errors import PellucidError
from pellucid.export.hf_pairs import check_labels, check_pairs, refuse_pairs, use_pairs
from pellucid.export.request import require_sequences, require_without_counts
from pellucid.models.catalogue import OPENED
from pellucid.models.sequences.hf_folder import quiet_transformers
from pellucid.records import ExportCheck
from pellucid.runs import Run

if TYPE_CHECKING:
    from torch import Tensor

    from pellucid.export.subject import Subject
    from pellucid.models.pairs.encoder_decoder import Encoder, EncoderDecoder
    from pellucid.models.sequences.hf_causal_lm import HFCausalLM
    from pellucid.models.sequences.transformer import Transformer

NEMOTRON, GPT2 = "nemotron", "gpt2"
# Which architecture has the positions of ours.
ARCHITECTURES = {"rotary": NEMOTRON, "learned": GPT2, "sinusoidal": GPT2, "index": GPT2, "none": GPT2}
EPSILON = 1e-5  # of layer norm, as torch has it


def refuse(run: Run, *, is_network_only: bool) -> None:
    if run.model == OPENED.name:
        return  # it came from there
    if run.kind == "pairs":
        refuse_pairs(run)
        return
    if run.kind == "images":
        _refuse_images(run)
    require_sequences(run, "hf")
    require_without_counts(run, "hf", is_network_only=is_network_only)
    refuse_other_networks(run, "hf", tuple(ARCHITECTURES))


def _refuse_images(run: Run) -> None:
    """Name what of a network of images transformers has no place for."""
    if run.model == "vit":
        why = (
            f"{run.name} has a hidden layer of {run.config.get('hidden')} between its class token and its scores, and "
            "ViTForImageClassification has none"
        )
    else:
        why = f"hf has no architecture that computes what {run.model} of images does"
    raise PellucidError(why, fix="Export it to onnx or torch")


def refuse_other_networks(run: Run, to: str, positions: tuple[str, ...]) -> None:
    """Refuse what is no transformer of the usual form with one of these positions."""
    otherwise = "Export it to onnx or torch"
    if run.model != "transformer":
        raise PellucidError(f"{to} has no architecture that computes what {run.model} does", fix=otherwise)
    if (form := run.config.get("form", "pre")) != "pre":
        raise PellucidError(
            f"{run.name} has blocks of the form {form}, and {to}'s have the norm before each part", fix=otherwise
        )
    if (found := run.config.get("positions", "rotary")) not in positions:
        raise PellucidError(f"{run.name} has {found} positions, and {to} holds {', '.join(positions)}", fix=otherwise)


def write(subject: Subject, folder: Path) -> None:
    from pellucid.export.torch_format import write_reading
    from pellucid.models.sequences.hf_causal_lm import HFCausalLM
    from pellucid.training.tensor_files import to_safetensors

    model: Any = subject.model
    if isinstance(model, HFCausalLM):
        _write_opened(model, subject, folder)
        return
    if subject.kind == "pairs":
        _write_pairs(model, subject, folder)
        return
    to = ARCHITECTURES[model.config.positions]
    config, tensors = (nemotron_config, nemotron_tensors) if to == NEMOTRON else (gpt2_config, gpt2_tensors)
    _write_json(folder / "config.json", {**config(model), **_token_ids(subject), "dtype": "float32"})
    _write_json(folder / "generation_config.json", {**_token_ids(subject), **_limit(subject)})
    content = to_safetensors(tensors(model))
    # transformers wants to know which library's tensors these are.
    (folder / "model.safetensors").write_bytes(_with_metadata(content))
    write_reading(subject, folder)
    _write_json(folder / "tokenizer_config.json", _tokenizer_config(subject))


def _write_opened(model: HFCausalLM, subject: Subject, folder: Path) -> None:
    """A model of transformers that was trained on: its own way to save itself, and the tokenizer that it came with."""
    with quiet_transformers():
        model.network.save_pretrained(folder)
    _write_json(folder / "tokenizer.json", subject.vocabulary.to_json()["tokenizer"])
    _write_json(folder / "tokenizer_config.json", _tokenizer_config(subject))


def _write_pairs(model: EncoderDecoder | Encoder, subject: Subject, folder: Path) -> None:
    from pellucid.export import hf_pairs
    from pellucid.models.pairs.encoder_decoder import Encoder
    from pellucid.training.tensor_files import to_safetensors

    if isinstance(model, Encoder):
        config, tensors = hf_pairs.megatron_config(model, subject), hf_pairs.megatron_tensors(model)
    else:
        config, tensors = hf_pairs.pegasus_config(model), hf_pairs.pegasus_tensors(model)
        _write_json(folder / "generation_config.json", hf_pairs.generation_config(model))
    _write_json(folder / "config.json", config)
    (folder / "model.safetensors").write_bytes(_with_metadata(to_safetensors(tensors)))
    hf_pairs.write_tokenizer(subject, folder)


def _limit(subject: Subject) -> dict[str, int]:
    return {"max_length": subject.longest}


def nemotron_config(model: Transformer) -> dict[str, Any]:
    """config.json of the network as `NemotronForCausalLM`."""
    own = model.config
    return {
        "architectures": ["NemotronForCausalLM"],
        "model_type": NEMOTRON,
        "vocab_size": own.vocab_size,
        "hidden_size": own.width,
        "intermediate_size": model.blocks[0].feed_forward.expand.out_features,  # type: ignore[union-attr]  # a Linear
        "num_hidden_layers": own.depth,
        "num_attention_heads": own.n_heads,
        "num_key_value_heads": own.n_heads,
        "head_dim": own.width // own.n_heads,
        "hidden_act": "relu2",
        "max_position_embeddings": own.context,
        "norm_eps": EPSILON,
        "rope_theta": own.rotary_base,
        "partial_rotary_factor": 1.0,
        "rope_parameters": {"rope_type": "default", "rope_theta": own.rotary_base, "partial_rotary_factor": 1.0},
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
    }


def nemotron_tensors(model: Transformer) -> dict[str, Tensor]:
    """The weights under the names of `NemotronForCausalLM`."""
    import torch
    from torch import Tensor

    own, found = model.config, dict[str, Tensor]()
    # LayerNorm1P multiplies by 1 + its weight.
    nothing = torch.zeros(own.width)
    for number, block in enumerate(_blocks(model)):
        at = f"model.layers.{number}"
        q, k, v = block.attention.project.detach()
        found |= {
            f"{at}.self_attn.q_proj.weight": pairs_to_halves(q, own.n_heads),
            f"{at}.self_attn.k_proj.weight": pairs_to_halves(k, own.n_heads),
            f"{at}.self_attn.v_proj.weight": v,
            f"{at}.self_attn.o_proj.weight": block.attention.combine.weight,
            f"{at}.mlp.up_proj.weight": block.feed_forward.expand.weight,
            f"{at}.mlp.down_proj.weight": block.feed_forward.contract.weight,
        }
        for norm in ("input_layernorm", "post_attention_layernorm"):
            found |= {f"{at}.{norm}.weight": nothing, f"{at}.{norm}.bias": nothing}
    return found | {
        "model.embed_tokens.weight": model.embedding.weight,
        "model.norm.weight": nothing,
        "model.norm.bias": nothing,
        "lm_head.weight": model.head.weight,
    }


def pairs_to_halves(matrix: Tensor, n_heads: int) -> Tensor:
    """The rows of each head, whose neighbours turn together, put so that the first half turns with the second.

    >>> import torch
    >>> pairs_to_halves(torch.arange(8).view(8, 1), n_heads=2).flatten()
    tensor([0, 2, 1, 3, 4, 6, 5, 7])
    """
    rows, columns = matrix.shape
    return matrix.view(n_heads, rows // n_heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def gpt2_config(model: Transformer) -> dict[str, Any]:
    """config.json of the network as `GPT2LMHeadModel`."""
    own = model.config
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": GPT2,
        "vocab_size": own.vocab_size,
        "n_positions": own.context,
        "n_embd": own.width,
        "n_layer": own.depth,
        "n_head": own.n_heads,
        "n_inner": model.blocks[0].feed_forward.expand.out_features,  # type: ignore[union-attr]  # a Linear
        "activation_function": "relu2",
        "layer_norm_epsilon": EPSILON,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "tie_word_embeddings": False,
    }


def gpt2_tensors(model: Transformer) -> dict[str, Tensor]:
    """The weights under the names of `GPT2LMHeadModel`, whose matrices stand the other way round."""
    import torch
    from torch import Tensor

    own, found = model.config, dict[str, Tensor]()
    ones, zeros = torch.ones(own.width), torch.zeros(own.width)
    places = model.positions.embeddings(0, own.context)
    for number, block in enumerate(_blocks(model)):
        at = f"transformer.h.{number}"
        matrices = {
            "attn.c_attn": block.attention.project.detach().flatten(0, 1),
            "attn.c_proj": block.attention.combine.weight,
            "mlp.c_fc": block.feed_forward.expand.weight,
            "mlp.c_proj": block.feed_forward.contract.weight,
        }
        for name, matrix in matrices.items():
            found |= {f"{at}.{name}.weight": matrix.t(), f"{at}.{name}.bias": torch.zeros(len(matrix))}
        for norm in ("ln_1", "ln_2"):
            found |= {f"{at}.{norm}.weight": ones, f"{at}.{norm}.bias": zeros}
    return found | {
        "transformer.wte.weight": model.embedding.weight,
        "transformer.wpe.weight": torch.zeros(own.context, own.width) if places is None else places,
        "transformer.ln_f.weight": ones,
        "transformer.ln_f.bias": zeros,
        "lm_head.weight": model.head.weight,
    }


def _blocks(model: Transformer) -> list[Any]:
    return list(model.blocks)


def _with_metadata(content: bytes) -> bytes:
    from safetensors.torch import load, save

    found: bytes = save(load(content), metadata={"format": "pt"})
    return found


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _token_ids(subject: Subject) -> dict[str, Any]:
    """A list's boundaries begin and end what is generated; a text has neither."""
    has_boundary, closing = subject.vocabulary.has_boundary, subject.vocabulary.closing
    ids = (0, closing) if has_boundary else (None, None)
    return {"bos_token_id": ids[0], "eos_token_id": ids[1], "pad_token_id": ids[1]}


def _tokenizer_config(subject: Subject) -> dict[str, Any]:
    from pellucid.export.tokenizer import special_tokens

    names = special_tokens(subject.vocabulary)
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": subject.longest,
        "clean_up_tokenization_spaces": False,
    }
    if names:
        closing = names[subject.vocabulary.closing]
        config |= {"bos_token": names[0], "eos_token": closing, "pad_token": closing}
    return config


def check(subject: Subject, folder: Path) -> ExportCheck:
    """Load the folder with transformers, and compare logits, texts as tokens and back, and greedy text."""
    import torch
    import transformers

    from pellucid.export.subject import ALLOWED, N_INPUTS, largest_difference

    if subject.kind == "pairs":
        return check_labels(subject, folder) if subject.run.model == "encoder" else check_pairs(subject, folder)
    with quiet_transformers():
        network: Any = transformers.AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    network.eval()
    found, vocabulary = 0.0, subject.vocabulary
    with torch.inference_mode():
        for (tokens,), wanted in subject.answers():
            said = network(tokens, attention_mask=torch.ones_like(tokens)).logits
            found = max(found, largest_difference(said, wanted))
    opening = [0] * vocabulary.has_boundary
    is_read = True
    with quiet_transformers():  # a text may be longer than what is read at once
        for text, inner in subject.texts():
            ids = tokenizer(text, add_special_tokens=vocabulary.has_boundary)["input_ids"]
            back = tokenizer.decode(ids, skip_special_tokens=True)
            is_read &= ids == [*opening, *inner] and back == vocabulary.decode(inner)
    return ExportCheck(
        f"transformers {transformers.__version__}", N_INPUTS, found, ALLOWED, is_read, _says_the_same(network, subject)
    )


def _says_the_same(network: Any, subject: Subject) -> bool:
    """Whether `generate` takes the tokens that the network itself finds likeliest."""
    import torch

    prompt, wanted = subject.greedy()
    if not wanted:
        return True
    given = torch.tensor([prompt])
    with quiet_transformers():
        said = network.generate(
            given, attention_mask=torch.ones_like(given), do_sample=False, max_new_tokens=len(wanted), max_length=None
        )
    return bool(said[0, len(prompt) :].tolist() == wanted)


def use(subject: Subject, folder: Path) -> tuple[str, ...]:
    if subject.kind == "pairs":
        return use_pairs(subject, folder)
    return (
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        f'model = AutoModelForCausalLM.from_pretrained("{folder}")',
        f'tokenizer = AutoTokenizer.from_pretrained("{folder}")',
    )
