"""One GGUF file for llama.cpp and Ollama, in llama.cpp's architecture `nemotron`; a Modelfile beside it.

Its tokenizer is llama.cpp's of GPT-2, which works on bytes: a character of several bytes is a token to which merges
lead. llama.cpp always has a token that ends a text. Where ours has none, one more is written that can never come: the
last norm is given a bias of 1 for every number, every row of the head the sum 0, so that it takes no notice of it, and
the row of that token -1000, so that its score is -1000 times the width, whatever was read.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.errors import PellucidError
from pellucid.export.hf_format import pairs_to_halves, refuse_other_networks
from pellucid.export.request import require_sequences, require_without_counts
from pellucid.records import ExportCheck
from pellucid.runs import Run

if TYPE_CHECKING:
    from torch import Tensor

    from pellucid.export.subject import Subject
    from pellucid.models.sequences.transformer import Transformer

FILE = "model.gguf"
NEVER = "<|never|>"
UNLIKELY = -1000.0
NORMAL, CONTROL = 1, 3  # kinds of tokens
EPSILON = 1e-5


def refuse(run: Run, *, is_network_only: bool) -> None:
    require_sequences(run, "gguf")
    require_without_counts(run, "gguf", is_network_only=is_network_only)
    refuse_other_networks(run, "gguf", ("rotary",))
    if (kind := run.data.tokens) == "words":
        raise PellucidError(
            f"{run.name} reads words, and llama.cpp has no tokenizer for a table of {kind}",
            fix="Train with {tokens}, or export to hf",
            options={"tokens": "bpe"},
        )


def write(subject: Subject, folder: Path) -> None:
    import gguf

    model: Any = subject.model
    own = model.config
    writer = gguf.GGUFWriter(folder / FILE, "nemotron")
    writer.add_name(subject.name)
    writer.add_description(f"{subject.report.data.description}; made by pellucid")
    writer.add_context_length(own.context)
    writer.add_embedding_length(own.width)
    writer.add_block_count(own.depth)
    writer.add_feed_forward_length(model.blocks[0].feed_forward.expand.out_features)
    writer.add_head_count(own.n_heads)
    writer.add_head_count_kv(own.n_heads)
    writer.add_layer_norm_eps(EPSILON)
    writer.add_rope_dimension_count(own.width // own.n_heads)
    writer.add_rope_freq_base(own.rotary_base)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    _add_tokenizer(writer, subject)
    for name, tensor in gguf_tensors(model, has_end=subject.vocabulary.has_boundary).items():
        writer.add_tensor(name, tensor.detach().float().contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (folder / "Modelfile").write_text(_modelfile(subject), encoding="utf-8")


def _modelfile(subject: Subject) -> str:
    length = min(subject.longest, 300)
    return (
        f"# ollama create {subject.name} -f Modelfile; then ollama run {subject.name}\n"
        f'FROM ./{FILE}\nTEMPLATE """{{{{ .Prompt }}}}"""\nPARAMETER temperature 1.0\nPARAMETER top_k 0\n'
        f"PARAMETER top_p 1.0\nPARAMETER repeat_penalty 1.0\nPARAMETER num_ctx {subject.longest}\n"
        f"PARAMETER num_predict {length}\n"
    )


def _add_tokenizer(writer: Any, subject: Subject) -> None:
    import json

    from pellucid.export.tokenizer import build_tokenizer, special_tokens

    vocabulary = subject.vocabulary
    names, merges = special_tokens(vocabulary), []
    if vocabulary.kind == "characters":
        tokens = [byte_text(symbol) for symbol in vocabulary.tokens]
        # From the first byte on, one more at a time; no two characters share a way that would end in another.
        own = [token for place, token in enumerate(tokens) if place not in names]
        steps = [(token[:end], token[end]) for token in own for end in range(1, len(token))]
        merges = list(dict.fromkeys(f"{left} {right}" for left, right in steps))
    else:
        stored = json.loads(build_tokenizer(vocabulary).to_str())["model"]
        tokens = sorted(stored["vocab"], key=stored["vocab"].__getitem__)
        merges = [" ".join(pair) if isinstance(pair, list) else pair for pair in stored["merges"]]
    for place, name in names.items():
        tokens[place] = name
    kinds = [CONTROL if place in names else NORMAL for place in range(len(tokens))]
    opening, closing = (0, vocabulary.closing) if names else (len(tokens), len(tokens))
    if not names:
        tokens, kinds = [*tokens, NEVER], [*kinds, CONTROL]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    # An array of nothing has no type, and llama.cpp wants one.
    writer.add_token_merges(merges or [f"{NEVER} {NEVER}"])
    writer.add_bos_token_id(opening)
    writer.add_eos_token_id(closing)
    writer.add_add_bos_token(bool(names))
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_vocab_size(len(tokens))


def byte_text(symbol: str) -> str:
    """A symbol as GPT-2's vocabulary writes it: a letter for each of its bytes.

    >>> byte_text("a"), byte_text(" "), byte_text("é")
    ('a', 'Ġ', 'Ã©')
    """
    from pellucid.export.tokenizer import byte_letters

    letters = byte_letters()
    return "".join(letters[byte] for byte in symbol.encode("utf-8", "surrogatepass"))


def gguf_tensors(model: Transformer, *, has_end: bool) -> dict[str, Tensor]:
    """The weights under the names of GGUF. has_end: whether a token of ours ends a text; else one is added."""
    import torch

    own = model.config
    ones, zeros = torch.ones(own.width), torch.zeros(own.width)
    embedding, head, last = model.embedding.weight.detach(), model.head.weight.detach(), zeros
    if not has_end:
        # The norm's output has the sum 0, so that a row of the head may lose its mean.
        head = torch.cat([head - head.mean(1, keepdim=True), torch.full((1, own.width), UNLIKELY)])
        embedding, last = torch.cat([embedding, torch.zeros(1, own.width)]), ones
    found = {
        "token_embd.weight": embedding,
        "output_norm.weight": ones,
        "output_norm.bias": last,
        "output.weight": head,
    }
    blocks: list[Any] = list(model.blocks)
    for number, block in enumerate(blocks):
        at = f"blk.{number}"
        q, k, v = block.attention.project.detach()
        found |= {
            f"{at}.attn_q.weight": pairs_to_halves(q, own.n_heads),
            f"{at}.attn_k.weight": pairs_to_halves(k, own.n_heads),
            f"{at}.attn_v.weight": v,
            f"{at}.attn_output.weight": block.attention.combine.weight,
            f"{at}.ffn_up.weight": block.feed_forward.expand.weight,
            f"{at}.ffn_down.weight": block.feed_forward.contract.weight,
        }
        for norm in ("attn_norm", "ffn_norm"):
            found |= {f"{at}.{norm}.weight": ones, f"{at}.{norm}.bias": zeros}
    return found


def check(subject: Subject, folder: Path) -> ExportCheck:
    """Load the file with llama.cpp where that is installed; else read its tensors back."""
    if importlib.util.find_spec("llama_cpp") is None:
        return _check_tensors(subject, folder)
    import llama_cpp
    import numpy as np
    import torch

    from pellucid.export.subject import ALLOWED, N_INPUTS, largest_difference

    loaded = _load(folder / FILE, subject.longest)
    found, vocabulary, read = 0.0, subject.vocabulary, loaded.eval
    size = len(vocabulary)
    for (rows,), wanted in subject.answers():
        for tokens, logits in zip(rows.tolist(), wanted, strict=True):
            loaded.reset()
            read(tokens)
            got = torch.from_numpy(np.array(loaded.scores[: len(tokens), :size]))
            found = max(found, largest_difference(got, logits))
    opening = [0] * vocabulary.has_boundary
    is_read = True
    for text, inner in subject.texts():
        ids = loaded.tokenize(text.encode("utf-8", "surrogatepass"), add_bos=vocabulary.has_boundary)
        is_read &= ids == [*opening, *inner]
    same = _says_the_same(loaded, subject)
    loaded.close()
    tool = f"llama.cpp by llama-cpp-python {llama_cpp.__version__}"
    return ExportCheck(tool, N_INPUTS, found, ALLOWED, is_read, same)


def _load(file: Path, longest: int) -> Any:
    """The file in llama.cpp, with keys and values kept as they are: by default it rounds them to 16 bits."""
    import llama_cpp

    # It tells on stderr, whatever it is asked, that it makes more room than the network has.
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        return llama_cpp.Llama(
            str(file),
            n_ctx=max(longest, 8),
            n_threads=1,
            logits_all=True,
            type_k=llama_cpp.GGML_TYPE_F32,
            type_v=llama_cpp.GGML_TYPE_F32,
            verbose=False,
        )


def _says_the_same(loaded: Any, subject: Subject) -> bool:
    """Whether llama.cpp takes the tokens that the network itself finds likeliest."""
    prompt, wanted = subject.greedy()
    loaded.reset()
    said = loaded.generate(prompt, temp=0.0, repeat_penalty=1.0)
    return list(itertools.islice(said, len(wanted))) == wanted


def _check_tensors(subject: Subject, folder: Path) -> ExportCheck:
    """The file read back with the gguf package, put into a fresh network, and that beside the network."""
    import gguf
    import torch

    from pellucid.export.subject import ALLOWED, N_INPUTS, largest_difference

    read = {one.name: torch.from_numpy(one.data.copy()) for one in gguf.GGUFReader(folder / FILE).tensors}
    fresh: Any = subject.card.build(subject.config)
    own, size = fresh.config, len(subject.vocabulary)
    state = {
        "embedding.weight": read["token_embd.weight"][:size],
        "head.weight": read["output.weight"][:size],
        **{name: tensor for name, tensor in fresh.state_dict().items() if name.startswith("positions.")},
    }
    for number in range(own.depth):
        at, here = f"blk.{number}", f"blocks.{number}"
        q, k, v = (read[f"{at}.attn_{part}.weight"] for part in "qkv")
        turned = [_halves_to_pairs(part, own.n_heads) for part in (q, k)]
        state |= {
            f"{here}.attention.project": torch.stack([*turned, v]),
            f"{here}.attention.combine.weight": read[f"{at}.attn_output.weight"],
            f"{here}.feed_forward.expand.weight": read[f"{at}.ffn_up.weight"],
            f"{here}.feed_forward.contract.weight": read[f"{at}.ffn_down.weight"],
        }
    fresh.load_state_dict(state)
    found = 0.0
    with torch.inference_mode():
        for (tokens,), wanted in subject.answers():
            found = max(found, largest_difference(fresh.eval()(tokens), wanted))
    return ExportCheck(f"gguf {_version()}, read back", N_INPUTS, found, ALLOWED, missing="llama-cpp-python")


def _halves_to_pairs(matrix: Tensor, n_heads: int) -> Tensor:
    rows, columns = matrix.shape
    return matrix.view(n_heads, 2, rows // n_heads // 2, columns).transpose(1, 2).reshape(rows, columns)


def _version() -> str:
    from importlib.metadata import version

    return version("gguf")


def use(subject: Subject, folder: Path) -> tuple[str, ...]:
    return (f"ollama create {subject.name} -f {folder / 'Modelfile'}", f"llama-cli -m {folder / FILE} -no-cnv")
