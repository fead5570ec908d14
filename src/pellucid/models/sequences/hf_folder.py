"""A Hugging Face folder on the disk, looked at before anything of it is loaded: no torch, no code, no pickle.

config.json must be of a kind that transformers has code for itself. Weights are safetensors, whole and of the sizes
that their headers say. The tokenizer is tokenizer.json. What is too large for this machine is refused by those sizes.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pellucid.errors import PellucidError, TooLarge, did_you_mean, quoted

CONFIG, TOKENIZER, WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
LARGEST_JSON = 64 << 20
LONGEST_HEADER = 8 << 20
MOST_TENSORS = 20_000
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".msgpack", ".h5")
BYTES_A_WEIGHT = 8 + 4  # in double precision, as everything is sampled and scored, beside the single that is loaded
# Under which of these names a config says how many tokens one pass may have.
LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "seq_length", "n_ctx")
# Keys that name code, or where the folder came from; none of them changes a number.
LEFT_OUT = ("auto_map", "custom_pipelines", "_name_or_path", "transformers_version", "quantization_config")
FLOAT_TAG = (
    "__float__"  # under which transformers writes the floats that JSON has no word for; older versions wrote them bare
)


@dataclass(frozen=True)
class HFCausalLMConfig:
    """A causal language model of transformers: which, and its own config.json."""

    vocab_size: int
    context: int  # tokens of one pass; 0 where there is no limit
    architecture: str  # as transformers calls it: gpt2, llama, ...
    settings: Mapping[str, Any]
    is_cached: bool = True  # whether reading token by token with its own cache gives the same numbers

    def __post_init__(self) -> None:
        is_word = isinstance(self.architecture, str) and re.fullmatch(r"[a-z0-9_.-]{1,64}", self.architecture)
        if not is_word or not isinstance(self.settings, Mapping) or set(LEFT_OUT) & set(self.settings):
            raise PellucidError("the config of a model of transformers is damaged", fix="Open the folder again")


class HFFolder(NamedTuple):
    """What is in the folder, checked as far as that goes without loading it."""

    path: Path
    config: HFCausalLMConfig
    weights: tuple[Path, ...]
    n_parameters: int
    tokenizer: Any  # the JSON of the tokenizers package
    opening: int | None  # the token that begins a text
    closing: tuple[int, ...]  # those that end one
    fingerprint: str  # SHA-256 of the weights' headers and the config; the weights themselves are in the run


def read_hf_folder(path: Path) -> HFFolder:
    """Look at a folder, and refuse what cannot or must not be loaded."""
    if not path.is_dir():
        beside = [one.name for one in path.parent.iterdir() if one.is_dir()] if path.parent.is_dir() else []
        raise PellucidError(
            f"there is no folder {quoted(str(path))}",
            fix=did_you_mean(path.name, beside, "Give a folder with config.json and model.safetensors"),
        )
    settings = _read_json(path / CONFIG)
    weights = _find_weights(path)
    architecture = str(settings.get("model_type", ""))
    require_architecture(architecture)
    headers = [_read_header(file) for file in weights]
    n_parameters = sum(_count(header) for header in headers)
    _require_memory(n_parameters, path)
    tokenizer = _read_json(path / TOKENIZER)
    if "text_config" in settings and "vocab_size" not in settings:
        raise PellucidError(
            f"{quoted(path.name)} reads more than text ({architecture})", fix="Give one of a language model alone"
        )
    vocab_size = settings.get("vocab_size")
    if not isinstance(vocab_size, int) or not 1 < vocab_size < 1 << 24:
        raise PellucidError(
            f"{CONFIG} of {quoted(path.name)} has no vocab_size", fix="Take it from a copy of the folder"
        )
    lengths = [settings[name] for name in LENGTHS if isinstance(settings.get(name), int)]
    kept = {name: value for name, value in settings.items() if name not in LEFT_OUT}
    config = HFCausalLMConfig(vocab_size, max(0, lengths[0]) if lengths else 0, architecture, kept)
    digest = hashlib.sha256(json.dumps([kept, headers], sort_keys=True).encode()).hexdigest()
    opening, closing = _ids(settings, "bos_token_id", vocab_size), _ids(settings, "eos_token_id", vocab_size)
    return HFFolder(
        path, config, weights, n_parameters, tokenizer, next(iter(opening or closing), None), closing, digest
    )


def require_architecture(name: str) -> None:
    """Refuse what transformers has no causal language model for, with code of its own."""
    try:
        from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as KNOWN
    except ImportError as error:
        raise PellucidError("transformers is not installed", fix="Type pip install 'pellucid[hf]'") from error
    if name not in KNOWN:
        raise PellucidError(
            f"the architecture {quoted(name)} is no causal language model that transformers has code for",
            fix=did_you_mean(name, KNOWN, "Code that comes with a model is never run; give gpt2, llama or the like"),
        )


def restore_floats(settings: Any) -> Any:
    """Settings with infinity where JSON has its name.

    >>> restore_floats({"time_step_limit": [0.0, {"__float__": "Infinity"}]})
    {'time_step_limit': [0.0, inf]}
    """
    if isinstance(settings, Mapping):
        is_tagged = set(settings) == {FLOAT_TAG} and settings[FLOAT_TAG] in ("Infinity", "-Infinity", "NaN")
        if is_tagged:
            return float(settings[FLOAT_TAG])
        return {name: restore_floats(value) for name, value in settings.items()}
    if isinstance(settings, list | tuple):
        return [restore_floats(value) for value in settings]
    return settings


def _ids(settings: Mapping[str, Any], name: str, vocab_size: int) -> tuple[int, ...]:
    found = settings.get(name)
    ids = found if isinstance(found, list) else [found]
    return tuple(one for one in ids if isinstance(one, int) and 0 <= one < vocab_size)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode) or os.path.getsize(path) > LARGEST_JSON:
            raise PellucidError(f"{quoted(str(path))} is no JSON file of a model", fix="Take it from a copy")
        content = json.loads(path.read_bytes().decode("utf-8"), parse_constant=lambda name: {FLOAT_TAG: name})
    except FileNotFoundError as error:
        hint = (
            "Save its fast tokenizer there with save_pretrained"
            if path.name == TOKENIZER
            else "Give a folder that Hugging Face wrote"
        )
        raise PellucidError(f"there is no {path.name} in {quoted(str(path.parent))}", fix=hint) from error
    except (OSError, ValueError, RecursionError) as error:
        raise PellucidError(
            f"{path.name} in {quoted(str(path.parent))} is damaged", fix="Take it from a copy"
        ) from error
    if not isinstance(content, dict):
        raise PellucidError(f"{path.name} in {quoted(str(path.parent))} holds no object", fix="Take it from a copy")
    return content


def _find_weights(path: Path) -> tuple[Path, ...]:
    if (path / WEIGHTS).is_file():
        return (path / WEIGHTS,)
    if (path / INDEX).is_file():
        places = _read_json(path / INDEX).get("weight_map")
        names = sorted(set(places.values())) if isinstance(places, dict) else []
        for name in names:
            if (
                not isinstance(name, str)
                or not re.fullmatch(r"[\w.-]+\.safetensors", name)
                or not (path / name).is_file()
            ):
                raise PellucidError(f"{INDEX} names {quoted(str(name))}, which is not there", fix="Take it from a copy")
        if names:
            return tuple(path / name for name in names)
    pickled = sorted(one.name for one in path.iterdir() if one.suffix in PICKLES)
    if pickled:
        raise PellucidError(
            f"the weights in {quoted(path.name)} are in {pickled[0]}, a format that can run code when it is loaded",
            fix="Save them as safetensors: model.save_pretrained(folder, safe_serialization=True)",
        )
    raise PellucidError(f"there is no {WEIGHTS} in {quoted(str(path))}", fix="Give a folder with safetensors")


def _read_header(path: Path) -> dict[str, Any]:
    """The header of a safetensors file whose tensors fill the rest of it, one after another."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > LONGEST_HEADER or 8 + length > size:
            raise _damaged(path, "its header does not fit")
        try:
            header = json.loads(file.read(length).decode("utf-8"))
            spans = sorted(tuple(item["data_offsets"]) for name, item in header.items() if name != "__metadata__")
            ends = [0, *(end for _, end in spans)]
            is_whole = all(begins == end for (begins, _), end in zip(spans, ends, strict=False))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise _damaged(path, "its header is no description of tensors") from error
    if len(header) > MOST_TENSORS or not spans or not is_whole or 8 + length + ends[-1] != size:
        raise _damaged(path, f"it has {size:,} bytes, and its header describes other tensors")
    found: dict[str, Any] = header
    return found


def _count(header: Mapping[str, Any]) -> int:
    return sum(math.prod(item["shape"]) for name, item in header.items() if name != "__metadata__")


def _damaged(path: Path, why: str) -> PellucidError:
    return PellucidError(f"{path.name} in {quoted(path.parent.name)} is damaged: {why}", fix="Take it from a copy")


def _require_memory(n_parameters: int, path: Path) -> None:
    needed = n_parameters * BYTES_A_WEIGHT
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        raise TooLarge(
            f"{quoted(path.name)} has {n_parameters:,} parameters, which need {needed / 1e9:,.1f} GB, and this machine "
            f"has {there / 1e9:,.1f}",
            fix="Open a smaller one",
        )


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """transformers without its progress bars and its advice: errors are told, nothing else."""
    import transformers

    logging: Any = transformers.utils.logging
    before, had_bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if had_bar:
            logging.enable_progress_bar()
