"""Models that others made, opened from Hugging Face folders; and training on from a run."""

import json
import os

import pytest
import torch

from pellucid import PellucidError, draw, export_run, open_model, sample, score, train
from pellucid.data.vocabularies import Characters
from pellucid.export.tokenizer import build_tokenizer
from pellucid.models.sequences import hf_folder
from pellucid.models.sequences.hf_causal_lm import HFCausalLM, computes_in_double, measure_contract
from pellucid.models.sequences.hf_folder import HFCausalLMConfig
from pellucid.runs import open_run
from pellucid.training.checkpoints import load_network

transformers = pytest.importorskip("transformers")

TEXT = "the cat sat on the mat and the dog sat on the log\n" * 20
LETTERS = Characters.of(TEXT, has_boundary=False)
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
SMALL |= {"max_position_embeddings": 24, "num_key_value_heads": 2, "head_dim": 8}
GPT = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 24}
# Of twenty-six families, with settings of their own; each is what transformers makes of its name.
ARCHITECTURES = {
    "gpt2": GPT,
    "gptj": {**GPT, "rotary_dim": 4},
    "codegen": {**GPT, "n_head": 4, "rotary_dim": 4},
    "mpt": {"d_model": 16, "n_heads": 2, "n_layers": 2, "max_seq_len": 24},
    "llama": {**SMALL, "num_key_value_heads": 1},
    "nemotron": SMALL,
    "gpt_neox": SMALL,
    "opt": {**SMALL, "ffn_dim": 32, "word_embed_proj_dim": 16},
    "bloom": {"hidden_size": 16, "n_layer": 2, "n_head": 2},
    "mistral": {**SMALL, "sliding_window": 4},
    "qwen2": SMALL,
    "phi": SMALL,
    "phi3": SMALL,
    "gemma": SMALL,
    "gemma2": {**SMALL, "sliding_window": 4},
    "olmo": SMALL,
    "gemma3_text": {**SMALL, "sliding_window": 4},
    "qwen3": SMALL,
    "stablelm": SMALL,
    "falcon": {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2},
    "mixtral": {**SMALL, "num_local_experts": 3},
    "mamba": {"hidden_size": 16, "num_hidden_layers": 2, "state_size": 4},
    "mamba2": {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "state_size": 4,
        "num_heads": 4,
        "head_dim": 8,
        "n_groups": 1,
    },
    "gpt_neo": {
        "hidden_size": 16,
        "num_layers": 2,
        "num_heads": 2,
        "max_position_embeddings": 24,
        "window_size": 4,
        "attention_types": [[["global", "local"], 1]],
    },
    "qwen3_moe": {**SMALL, "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 8},
    "gpt_oss": {**SMALL, "num_local_experts": 3, "num_experts_per_tok": 2, "sliding_window": 4},
}


def build(name):
    settings = {"vocab_size": len(LETTERS), "bos_token_id": 0, "eos_token_id": None, "pad_token_id": None}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        config = transformers.AutoConfig.for_model(name, **settings, **ARCHITECTURES[name])
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        for parameter in model.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.2)
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a model of others, opened as the run `theirs`."""
    before, place = os.getcwd(), tmp_path_factory.mktemp("opened")
    os.chdir(place)
    save("gpt2", place / "gpt2")
    open_model("gpt2", name="theirs")
    (place / "text.txt").write_text(TEXT)
    yield place
    os.chdir(before)


def save(name, place):
    with hf_folder.quiet_transformers():
        build(name).save_pretrained(place)
    build_tokenizer(LETTERS).save(str(place / "tokenizer.json"))


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_any_architecture_answers_the_contract(name):
    theirs = build(name)
    settings = {key: value for key, value in theirs.config.to_dict().items() if key not in hf_folder.LEFT_OUT}
    model = HFCausalLM(HFCausalLMConfig(len(LETTERS), 24, name, settings))
    model.network.load_state_dict(theirs.state_dict())
    contract = measure_contract(model.eval())
    assert contract.leak < 1e-4
    assert contract.stepwise < 1e-4
    tokens = torch.randint(0, len(LETTERS), (2, 9))
    with torch.no_grad():
        assert torch.allclose(model(tokens), theirs(tokens).logits, atol=1e-4)
        assert model.attention_weights(tokens) or name in ("mamba", "mamba2")
        single = model(tokens)
        assert computes_in_double(model)
        assert torch.equal(model(tokens), single)


def test_an_opened_model_is_a_run_as_any_other(folder):
    theirs = build("gpt2")
    model, _ = load_network(open_run("theirs"))
    tokens = torch.tensor([LETTERS.encode("the cat")])
    with torch.no_grad():
        assert torch.allclose(model.eval()(tokens), theirs(tokens).logits, atol=1e-5)
    said = score("theirs", "the cat")
    assert len(said.surprises) == 7
    drawn = sample("theirs", prompt="the ", length=9, temperature=0)
    assert drawn.samples[0].text.startswith("the ")
    assert "not known" in repr(drawn)
    maps = draw("attention-maps", "theirs", input="the cat").record
    assert len(maps.parts[0].layers) == 2


@pytest.mark.parametrize("is_bare", [False, True])
def test_a_config_may_hold_infinity(folder, is_bare):
    """As transformers writes it now, and as it did before, which is no JSON."""
    name = f"endless-{is_bare}"
    save("mamba2", folder / name)
    path = folder / name / "config.json"
    written = path.read_text()
    settings = json.loads(written)
    assert settings["time_step_limit"] == [0.0, {"__float__": "Infinity"}]
    if is_bare:
        path.write_text(json.dumps({**settings, "time_step_limit": [0.0, float("inf")]}))
        assert "Infinity]" in path.read_text()
    open_model(name, name=f"{name}-run")
    model, _ = load_network(open_run(f"{name}-run"))
    assert model.network.config.time_step_limit[1] == float("inf")
    assert sample(f"{name}-run", prompt="the ", length=5, temperature=0).samples[0].text.startswith("the ")


def test_tied_weights_are_kept_once(folder):
    from safetensors import safe_open

    with safe_open("runs/theirs/model.safetensors", "pt") as file:
        names = set(file.keys())
    assert "network.transformer.wte.weight" in names
    assert "network.lm_head.weight" not in names


def test_training_goes_on_from_what_others_made(folder):
    run = train("text.txt", kind="text", from_run="theirs", steps=3, name="tuned")
    began = run.report.fine_tuning
    assert began.run == "theirs"
    assert began.dev > run.report.rung.dev
    assert run.report.evaluations[0].dev == pytest.approx(began.dev, abs=1e-4)
    assert [gain.side for gain in began.gains] == ["dev", "test"]
    assert "Over its start, theirs as it was, it earns +" in repr(run)
    made = export_run("tuned", to="hf", out="tuned-again")
    assert made.check.largest_difference < 1e-4
    with pytest.raises(PellucidError, match="is in that form already"):
        export_run("theirs", to="hf")
    with pytest.raises(PellucidError, match="onnx is for networks that were built here"):
        export_run("theirs", to="onnx")


def test_training_goes_on_from_a_run_on_counting(folder):
    items = [
        first + middle + last for first in "bdkmst" for middle in ("a", "e", "io") for last in ("n", "r", "rk", "")
    ]
    (folder / "first.txt").write_text("\n".join(items) + "\n")
    (folder / "second.txt").write_text("\n".join(item[::-1] for item in items) + "\n")
    (folder / "strange.txt").write_text("\n".join(item + "z" for item in items) + "\n")
    train("first.txt", kind="list", model="mlp", size="tiny", steps=3, name="first")
    run = train("second.txt", from_run="first", steps=3, name="second")
    assert run.report.fine_tuning.run == "first"
    weights = [load_network(open_run(name))[0].state_dict() for name in ("first", "second")]
    assert weights[0].keys() == weights[1].keys()
    assert "--from first" in " ".join(run.report.command)
    with pytest.raises(PellucidError, match="'z'"):
        train("strange.txt", from_run="first", steps=3, name="never")
    for options, says in [
        ({"model": "gru"}, "cannot begin from it"),
        ({"width": 8}, "cannot change it"),
        ({"tokens": "bytes"}, "the vocabulary is that of first"),
        ({"kind": "text"}, "reads a list"),
    ]:
        with pytest.raises(PellucidError, match=says):
            train("second.txt", from_run="first", steps=3, name="never", **options)
    with pytest.raises(PellucidError, match="is not trained from nothing"):
        train("text.txt", model="hf-causal-lm", steps=3, name="never")
    assert not (folder / "runs" / "never").exists()


def damaged_header(place):
    file = place / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-40])


def pickled(place):
    (place / "model.safetensors").rename(place / "pytorch_model.bin")


def of_unknown_kind(place):
    change(place, model_type="os.system")


def of_other_size(place):
    change(place, n_embd=32)


def that_cannot_run(place):
    save("codegen", place)
    change(place, n_head=2)  # transformers builds it, and its code cuts heads into four parts


def with_odd_json(place):
    (place / "config.json").write_text("{")


def without_tokenizer(place):
    (place / "tokenizer.json").unlink()


def with_odd_tokenizer(place):
    (place / "tokenizer.json").write_text('{"version": "1.0"}')


def change(place, **settings):
    file = place / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (damaged_header, "is damaged: it has"),
        (pickled, "a format that can run code"),
        (of_unknown_kind, "no causal language model that transformers has code for"),
        (
            of_other_size,
            r"do not fit its config: transformer\.h\.0\.attn\.c_attn\.bias is \(48,\), and by the config \(96,\)",
        ),
        (that_cannot_run, "the code of codegen in transformers fails on its first tokens"),
        (with_odd_json, "config.json in .* is damaged"),
        (without_tokenizer, "there is no tokenizer.json"),
        (with_odd_tokenizer, "tokenizer.json cannot be read"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_must_not_be_loaded_is_refused(folder, tmp_path, spoil, says):
    place = tmp_path / "spoilt"
    save("gpt2", place)
    spoil(place)
    before = sorted(os.listdir("runs"))
    with pytest.raises(PellucidError, match=says):
        open_model(place)
    assert sorted(os.listdir("runs")) == before


def test_a_name_that_is_taken_is_refused(folder):
    with pytest.raises(PellucidError, match=r"theirs exists already, and nothing is ever overwritten\. Choose another"):
        open_model("gpt2", name="theirs")


def test_what_is_too_large_is_refused_by_its_size(folder, tmp_path):
    """A header alone says how large it would be; the file is sparse, and nothing of it is read."""
    place = tmp_path / "huge"
    save("gpt2", place)
    shape = [1 << 18, 1 << 20]
    header = json.dumps({"w": {"dtype": "F32", "shape": shape, "data_offsets": [0, 1 << 40]}}).encode()
    with open(place / "model.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        try:
            file.truncate(8 + len(header) + (1 << 40))
        except OSError:
            pytest.skip("the file system has no files of 1 TB")
    with pytest.raises(PellucidError, match=r"274,877,906,944 parameters, which need 3,298.5 GB"):
        open_model(place)
