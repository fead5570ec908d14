"""Any causal language model of transformers as a network here: it answers the same calls as every other.

Its code is that of the transformers package alone. Keys and values are kept in the package's own cache; a network that
has none, or whose cache gives other numbers than reading all again, reads all again for each token. Which of the two it
is was measured when the model was opened.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Self, cast

import torch
from torch import Tensor, nn

from pellucid.errors import PellucidError
from pellucid.models.contracts import ANY_LENGTH, SequenceModel
from pellucid.models.sequences.hf_folder import (
    HFCausalLMConfig,
    HFFolder,
    quiet_transformers,
    require_architecture,
    restore_floats,
)

ALLOWED = 1e-4  # between reading at once and token by token, of scores of about 1
TRIED = 12  # tokens that a model is tried on
# Attention whose weights can be asked for, and experts that compute in double precision too: neither as fused kernels.
WRITTEN_OUT = {"attn_implementation": "eager", "experts_implementation": "eager", "dtype": torch.float32}


class HFState(NamedTuple):
    """What was read: the package's cache, or where there is none the tokens, (batch, time)."""

    cache: Any
    tokens: Tensor


class HFCausalLM(SequenceModel):
    """tokens: (batch, time) -> (batch, time, vocab), by the network that config.json names."""

    def __init__(self, config: HFCausalLMConfig) -> None:
        super().__init__()
        require_architecture(config.architecture)
        self.config, self.is_cached = config, config.is_cached
        self.vocab_size, self.longest = config.vocab_size, config.context or ANY_LENGTH
        self.network: Any = _build(config)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.network(input_ids=tokens, use_cache=False).logits
        return logits

    def begin(self, batch: int) -> HFState:
        return HFState(None, torch.zeros((batch, 0), dtype=torch.long))

    def advance(self, tokens: Tensor, state: HFState) -> tuple[Tensor, HFState]:
        return self.read(tokens[:, None], state)

    def read(self, tokens: Tensor, state: HFState) -> tuple[Tensor, HFState]:
        seen = torch.cat([state.tokens, tokens], dim=1)
        if not self.is_cached:
            return self(seen)[:, -1], HFState(None, seen)
        said = self.network(input_ids=tokens, past_key_values=state.cache, use_cache=True)
        return said.logits[:, -1], HFState(said.past_key_values, seen)

    def keep(self, state: HFState, rows: Tensor) -> HFState:
        cache = copy.deepcopy(state.cache)
        if cache is not None:
            cache.batch_select_indices(rows)
        return HFState(cache, state.tokens[rows])

    @torch.no_grad()
    def attention_weights(self, tokens: Tensor) -> list[Tensor]:
        """What each head of each layer takes of each token: for each layer (batch, heads, time, time)."""
        said = self.network(input_ids=tokens, use_cache=False, output_attentions=True)
        return [one for one in getattr(said, "attentions", None) or () if one is not None]  # Mamba has none

    def for_inference(self) -> Self:
        """Nothing is folded, so that a network that learns nothing any more need not be copied."""
        return self if not self.training else super().for_inference()

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]  # as it is called
        """What several parts share is there once, under its first name."""
        found: dict[str, Any] = super().state_dict(*args, **kwargs)
        first: dict[int, str] = {}
        for name, tensor in found.items():
            first.setdefault(tensor.data_ptr(), name)
        return {
            name: tensor for name, tensor in found.items() if first[tensor.data_ptr()] == name or not tensor.numel()
        }

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        there = super().state_dict()
        shared = {tensor.data_ptr(): state_dict[name] for name, tensor in there.items() if name in state_dict}
        whole = {name: shared.get(tensor.data_ptr()) for name, tensor in there.items()}
        return super().load_state_dict({name: one for name, one in whole.items() if one is not None}, strict, assign)


def _build(config: HFCausalLMConfig) -> nn.Module:
    import transformers

    settings = restore_floats(
        {name: value for name, value in config.settings.items() if name not in ("model_type", "dtype", "torch_dtype")}
    )
    with quiet_transformers():
        try:
            made = transformers.AutoConfig.for_model(config.architecture, **settings)
            auto: Any = transformers.AutoModelForCausalLM
            network: nn.Module = auto.from_config(made, **WRITTEN_OUT)
        except Exception as error:  # each of its configs has errors of its own
            raise PellucidError(
                f"transformers cannot build {config.architecture} from this config: {str(error).splitlines()[0][:80]}",
                fix="Take config.json from a copy of the folder",
            ) from error
    found: nn.Module = _without_padding(network.eval())
    return found


def load_hf_folder(folder: HFFolder) -> HFCausalLM:
    """The model of a folder that was looked at, in single precision, with its weights from safetensors alone."""
    import transformers

    model, auto = HFCausalLM(folder.config), cast("Any", transformers.AutoModelForCausalLM)
    with quiet_transformers():
        try:
            loaded, about = auto.from_pretrained(
                folder.path,
                config=model.network.config,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                **WRITTEN_OUT,
                ignore_mismatched_sizes=True,  # so that they are told, and refused below
                output_loading_info=True,
            )
        except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
            raise PellucidError(
                f"the weights in {folder.path.name} do not fit its config: {str(error).splitlines()[0][:100]}",
                fix="Take both from a copy of the folder",
            ) from error
    for name, found, wanted in sorted(about["mismatched_keys"]):
        raise PellucidError(
            f"the weights in {folder.path.name} do not fit its config: {name[:80]} is {tuple(found)}, and by the "
            f"config {tuple(wanted)}",
            fix="Take both from a copy of the folder",
        )
    if missing := sorted(about["missing_keys"]):
        raise PellucidError(
            f"the weights in {folder.path.name} lack {len(missing)} tensors of its config, such as {missing[0][:80]}",
            fix="Take both from a copy of the folder",
        )
    model.network = _without_padding(loaded.eval())
    return model


def _without_padding(network: Any) -> Any:
    """A token that fills up batches is a token like any other here: nothing is filled up."""
    network.config.pad_token_id = None
    return network


class Contract(NamedTuple):
    """What was measured of a model that was opened: how far the future moves the past, and how far two ways differ."""

    leak: float
    stepwise: float
    is_cached: bool


@torch.no_grad()
def measure_contract(model: HFCausalLM, seed: int = 1) -> Contract:
    """Other later tokens must not move what was said before, and token by token it must say the same."""
    length = max(2, min(TRIED, model.longest))
    draw = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, model.vocab_size, (2, length), generator=draw)
    half = length // 2
    others = torch.cat(
        [tokens[:, :half], torch.randint(0, model.vocab_size, (2, length - half), generator=draw)], dim=1
    )
    whole = _first_scores(model, tokens)
    scale = max(1.0, float(whole.abs().max()))
    leak = float((model(others)[:, :half] - whole[:, :half]).abs().max()) / scale
    differ = math.inf
    for is_cached in (True, False):
        model.is_cached = is_cached
        try:
            state, said = model.begin(2), []
            for column in tokens.unbind(1):
                scores, state = model.advance(column, state)
                said.append(scores)
            state = model.keep(state, torch.tensor([1]))
            differ = float((torch.stack(said, dim=1) - whole).abs().max()) / scale
        except (AttributeError, TypeError, ValueError, RuntimeError, IndexError, KeyError):
            continue  # it has a cache of another kind
        if differ <= ALLOWED:
            break
    return Contract(leak, differ, model.is_cached)


def _first_scores(model: HFCausalLM, tokens: Tensor) -> Tensor:
    """What it says to its first tokens; a config that transformers builds may be one that its code cannot run."""
    try:
        return cast("Tensor", model(tokens))
    except (AttributeError, TypeError, ValueError, RuntimeError, LookupError, NotImplementedError) as error:
        why = str(error).splitlines()[0][:80] if str(error) else type(error).__name__
        raise PellucidError(
            f"the code of {model.config.architecture} in transformers fails on its first tokens: {why}",
            fix="Take config.json from a copy of the folder",
        ) from error


@torch.no_grad()
def computes_in_double(model: HFCausalLM) -> bool:
    """Whether its code takes numbers of double precision, in which everything is sampled and scored."""
    try:
        model.double()(torch.zeros((1, 2), dtype=torch.long))
    except RuntimeError:
        return False
    finally:
        model.float()
    return True
