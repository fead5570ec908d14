"""What `pellucid export` writes, loaded by the tools that it is for; and what it refuses, with nothing written."""

import contextlib
import io
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.at_length import some_of

from pellucid import PellucidError, predict, sample, train
from pellucid.api.serving import ServedRun
from pellucid.data.vocabularies import BPE, Bytes, Characters, Words, words_in
from pellucid.export import export_run, hf_format, request, subject
from pellucid.export.hf_pairs import check_labels, check_pairs
from pellucid.export.source import gather_source
from pellucid.export.tokenizer import build_tokenizer, word_pattern
from pellucid.export.torch_format import imported_alone, specialised
from pellucid.models.catalogue import NETWORKS
from pellucid.models.counting.ngram import NGram, NGramConfig
from pellucid.models.sequences.count_tables import CountTables
from pellucid.runs import open_run
from pellucid.training.checkpoints import load_network
from pellucid.training.run_data import load_vocabulary

ITEMS = [
    first + middle + last for first in "bdkmst" for middle in ("a", "e", "io", "é") for last in ("n", "r", "rk", "")
]
ODD = "naïve café — “don't”, said 日本 🎉!\n\n  Two  spaces,\ttabs\x1c12,345.67; l'été\r\n"
ODD += " e\u0301\u00a0<s> <|boundary|> ·²\n"
TOKENS = [*(pytest.param(one, marks=pytest.mark.slow) for one in ("characters", "bytes")), "bpe", "words"]
WITHOUT_PELLUCID = "import os, runpy, sys; sys.modules['pellucid'] = None; sys.argv = sys.argv[1:]; "
WITHOUT_PELLUCID += "sys.path.insert(0, '.'); runpy.run_path('sample.py', run_name='__main__'); "
WITHOUT_PELLUCID += "sys.stdout.flush(); os._exit(0)"  # to take torch apart takes half as long as to load it


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with runs of each kind, made in two steps each."""
    before, place = os.getcwd(), tmp_path_factory.mktemp("exports")
    os.chdir(place)
    (place / "words.txt").write_text("\n".join(ITEMS) + "\n")
    network = {"model": "transformer", "steps": 2, "size": "tiny"}
    train("words.txt", kind="list", start="scratch", name="alone", **network)
    train("words.txt", kind="list", name="counted", **{**network, "steps": 40})
    train("words.txt", kind="list", start="scratch", positions="learned", name="learned", **network)
    train("words.txt", kind="list", model="rnn", start="scratch", steps=1, size="tiny", name="rolling")
    train("words.txt", kind="list", model="bigram", name="counts")
    (place / "odd.txt").write_text(ODD * 30, newline="")
    train("penguins", target="species", model="logistic", steps=2, name="rows")
    train("digits", model="logistic", steps=2, name="pictures")
    yield place
    os.chdir(before)


def train_odd(tokens):
    """A run of odd text; the name of it."""
    if not Path("runs", f"odd-{tokens}").exists():
        size = {"model": "transformer", "size": "tiny", "steps": 20, "context": 24}
        train("odd.txt", kind="text", tokens=tokens, start="scratch", name=f"odd-{tokens}", **size)
    return f"odd-{tokens}"


def run_alone(folder, *words):
    """sample.py of an export in a process that has no pellucid."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PELLUCID, "sample.py", *words],
        capture_output=True,
        encoding="utf-8",
        cwd=folder,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def require_usable(made):
    """The lines that the card advises run as they stand, and put finite numbers out."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec("\n".join(made.use), {})
    assert re.search(r"\d", said.getvalue())
    assert "nan" not in said.getvalue()


def greedy(run):
    return sample(run, temperature=0).samples[0].text


@pytest.mark.parametrize(("run", "architecture"), [("alone", "NemotronForCausalLM"), ("learned", "GPT2LMHeadModel")])
def test_transformers_says_what_the_network_says(folder, run, architecture):
    transformers = pytest.importorskip("transformers")
    made = export_run(run, to="hf", out=f"{run}-as-hf")
    assert made.check.largest_difference < 1e-5
    model = transformers.AutoModelForCausalLM.from_pretrained(made.folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(made.folder)
    assert type(model).__name__ == architecture
    read = tokenizer("", return_tensors="pt")
    said = model.generate(**read, do_sample=False, max_length=made.check and model.config.max_position_embeddings)
    assert tokenizer.decode(said[0], skip_special_tokens=True) == greedy(run)
    card = (folder / made.folder / "README.md").read_text()
    assert "words.txt: a list of 96 items" in card
    assert "Kneser" in card


@pytest.mark.parametrize("tokens", TOKENS)
def test_transformers_reads_and_writes_a_text_of_any_tokens(folder, tokens):
    """Odd spaces, accents, emoji and what looks like a special token: the same numbers, and the same text back."""
    transformers = pytest.importorskip("transformers")
    run = train_odd(tokens)
    made = export_run(run, to="hf")
    assert made.check.largest_difference < 1e-5
    assert made.check.reads_the_same
    assert made.check.says_the_same
    model = transformers.AutoModelForCausalLM.from_pretrained(made.folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(made.folder)
    known = load_vocabulary(open_run(run))
    for text in (ODD, ODD[5:], " café", "\n\n"):
        ids = tokenizer(text)["input_ids"]
        assert ids == known.encode(text)
        assert tokenizer.decode(ids) == text
    read = tokenizer(" café", return_tensors="pt")
    said = model.generate(**read, do_sample=False, max_new_tokens=10, max_length=None)
    wanted = sample(run, prompt=" café", length=10, temperature=0).samples[0].text
    whole = tokenizer.decode(said[0]).rstrip("\ufffd")  # of bytes the last may be the first half of a character
    assert len(whole) > len(" café")
    assert wanted == whole if tokens != "bytes" else wanted.startswith(whole)


def test_a_text_longer_than_what_is_read_at_once_is_no_warning(folder, monkeypatch):
    pytest.importorskip("transformers")
    made = export_run("alone", to="hf", out="quiet")
    opened = subject.Subject.load(open_run("alone"), is_network_only=False)
    long = "ban" * opened.longest
    monkeypatch.setattr(subject.Subject, "texts", lambda self: [(long, self.vocabulary.encode(long))])
    said, handler = [], logging.Handler()
    handler.emit = said.append
    logging.getLogger("transformers").addHandler(handler)
    try:
        assert hf_format.check(opened, Path(made.folder)).reads_the_same
    finally:
        logging.getLogger("transformers").removeHandler(handler)
    assert [one.getMessage() for one in said] == []


def test_words_are_cut_as_python_cuts_them():
    """Where `tokenizers` means something else by letters and by space than Python's re does."""
    from tokenizers import Regex, pre_tokenizers

    cut = pre_tokenizers.Split(Regex(word_pattern()), behavior="isolated")
    strange = [chr(code) for code in (*range(0x100), *range(0x300, 0x370), *range(0x2000, 0x2190), 0x3000, 0x5341)]
    text = "".join(f"a{one} {one}b'{one}" for one in strange)
    assert [piece for piece, _ in cut.pre_tokenize_str(text)] == list(words_in(text))


def test_the_source_alone_says_what_the_network_says(folder):
    made = export_run("counted", to="torch", out="as-torch")
    assert made.check.largest_difference < 1e-4
    assert run_alone(made.folder, "--count", "1", "--temperature", "0") == greedy("counted") + "\n"
    source = (folder / made.folder / "model.py").read_text()
    assert "import pellucid" not in source
    assert "from pellucid" not in source


def test_rows_are_answered_by_the_source_alone(folder):
    made = export_run("rows", to="torch")
    table = Path("new.csv")
    head = "species,island,bill_length_mm,bill_depth_mm,flipper_length_mm,body_mass_g,sex,year"
    table.write_text(
        f"{head}\n,Biscoe,45.1,14.5,215,5000,female,2007\n,Torgersen,39.1,,181,,male,2008\n,Nowhere,,,,,,\n"
    )
    said = [line.split("\t")[0] for line in run_alone(made.folder, str(table.resolve())).splitlines()]
    assert said == [one.answer for one in predict("rows", str(table)).predictions]


def test_a_graph_holds_counts_and_columns(folder):
    onnxruntime = pytest.importorskip("onnxruntime")
    made = export_run("counted", to="onnx", out="counted-graph")
    assert made.check.largest_difference < 1e-4
    require_usable(made)
    made = export_run("rows", to="onnx", out="rows-graph")
    assert made.check.largest_difference < 1e-4
    require_usable(made)
    session = onnxruntime.InferenceSession(f"{made.folder}/model.onnx")
    assert {one.name for one in session.get_inputs()} >= {"island", "sex", "bill_length_mm"}
    columns = {"island": ["Biscoe"], "sex": [""], "bill_length_mm": [45.1], "bill_depth_mm": [14.5]}
    columns |= {"flipper_length_mm": [215.0], "body_mass_g": [np.nan], "year": [2007.0]}
    kinds = {one.name: object if "string" in one.type else float for one in session.get_inputs()}
    (found,) = session.run(None, {name: np.array(columns[name], dtype=kind) for name, kind in kinds.items()})
    assert found.shape == (1, 3)
    assert abs(found.sum() - 1) < 1e-5


@pytest.mark.parametrize("name", ["gru", pytest.param("lstm", marks=pytest.mark.slow)])
def test_a_graph_of_any_length_holds_counts_and_gates(folder, name):
    pytest.importorskip("onnxruntime")
    train("words.txt", kind="list", model=name, steps=2, size="tiny", name=f"counted-{name}")
    assert export_run(f"counted-{name}", to="onnx").check.largest_difference < 1e-4


def test_a_number_is_answered_from_dates_and_one_category(folder):
    """By the graph, whose date is taken apart before, and by the source alone, which does that itself."""
    onnxruntime = pytest.importorskip("onnxruntime")
    draw = np.random.default_rng(1)
    lines = ["sold,colour,size,price"]
    for _ in range(120):
        day = f"20{draw.integers(18, 25)}-{draw.integers(1, 13):02}-{draw.integers(1, 29):02}"
        size = draw.normal(5, 2)
        colour = draw.choice(["red", '"dark, blue"', "é"])
        lines.append(f"{day},{colour},{'' if size < 3 else round(size, 3)},{2 * size + draw.random():.3f}")
    Path("sold.csv").write_text("\n".join(lines) + "\n")
    train("sold.csv", target="price", model="logistic", steps=5, name="prices")
    wanted = [float(one.answer) for one in predict("prices", "sold.csv").predictions]
    made = export_run("prices", to="torch")
    said = run_alone(made.folder, str(Path("sold.csv").resolve())).splitlines()
    assert [float(line.split("\t")[0]) for line in said] == pytest.approx(wanted, abs=1e-3)
    made = export_run("prices", to="onnx")
    assert made.check.largest_difference < 1e-4
    session = onnxruntime.InferenceSession(f"{made.folder}/model.onnx")
    assert {one.name for one in session.get_inputs()} >= {"colour", "size", "sold (year)", "sold (month)"}
    assert [one.name for one in session.get_outputs()] == ["value"]


def test_coloured_images_are_answered_by_the_source_alone(folder):
    from PIL import Image

    draw = np.random.default_rng(1)
    for name, colour in (("warm", (200, 80, 40)), ("cold", (40, 90, 210))):
        Path("pictures", name).mkdir(parents=True)
        for number in range(30):
            pixels = np.clip(draw.normal(colour, 40, (9, 8, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(f"pictures/{name}/{number}.png")
    train("pictures", model="logistic", steps=5, name="colours")
    Image.open("pictures/warm/0.png").resize((31, 17)).convert("RGBA").save("wide.png")
    files = [str(Path(one).resolve()) for one in ("pictures/warm/1.png", "pictures/cold/1.png", "wide.png")]
    made = export_run("colours", to="torch")
    said = [line.split("\t")[0] for line in run_alone(made.folder, *files).splitlines()]
    assert said == [predict("colours", file).predictions[0].answer for file in files]
    pytest.importorskip("onnxruntime")
    made = export_run("colours", to="onnx")
    assert made.check.largest_difference < 1e-4
    require_usable(made)


def test_a_gguf_file_holds_the_weights_and_the_letters(folder):
    gguf = pytest.importorskip("gguf")
    made = export_run("alone", to="gguf")
    assert made.check.largest_difference < 1e-2
    read = gguf.GGUFReader(f"{made.folder}/model.gguf")
    assert read.fields["general.architecture"].contents() == "nemotron"
    assert read.fields["nemotron.rope.freq_base"].contents() == 100  # as networks of short contexts have it
    tokens = read.fields["tokenizer.ggml.tokens"].contents()
    assert tokens[:2] == ["<|boundary|>", "a"]
    assert "Ã©" in tokens
    assert read.fields["tokenizer.ggml.merges"].contents() == ["Ã ©"]
    assert "FROM ./model.gguf" in (folder / made.folder / "Modelfile").read_text()


@pytest.mark.parametrize("tokens", ["", "characters", "bytes", "bpe"])
def test_llama_cpp_writes_the_same_text(folder, tokens):
    llama_cpp = pytest.importorskip("llama_cpp")
    run = train_odd(tokens) if tokens else "alone"
    made = export_run(run, to="gguf", out=f"{run}-for-llama")
    assert made.check.largest_difference < 1e-4
    assert made.check.reads_the_same
    assert made.check.says_the_same
    loaded = llama_cpp.Llama(f"{made.folder}/model.gguf", vocab_only=True, verbose=False)
    text = ODD if tokens else "maré"
    tokens = loaded.tokenize(text.encode(), add_bos=False, special=False)
    assert tokens == load_vocabulary(open_run(run)).encode(text)
    assert loaded.detokenize(tokens).decode() == text


def test_without_its_counts_a_network_says_what_that_costs(folder):
    made = export_run("counted", to="torch", out="without-counts", network_only=True)
    (note,) = made.notes
    assert note.kind == "exported-alone"
    assert "counts are left out" in (folder / made.folder / "README.md").read_text()


@pytest.mark.parametrize(
    ("run", "options", "says"),
    [
        ("counted", {"to": "hf"}, "has no place for counts"),
        ("counted", {"to": "gguf"}, "has no place for counts"),
        ("rows", {"to": "hf"}, "networks that go on with a text"),
        ("rolling", {"to": "hf"}, "no architecture that computes what rnn does"),
        ("learned", {"to": "gguf"}, "has learned positions, and gguf holds rotary"),
        ("counts", {"to": "onnx"}, "which only counts"),
        ("alone", {"to": "onnx", "network_only": True}, "does not start from counting"),
        ("alone", {"to": "keras"}, "there is no format called 'keras'"),
        ("alone", {"to": "torch", "out": "words.txt"}, "nothing is ever overwritten"),
        ("alone", {"to": "torch", "out": "nowhere/at/all"}, "there is no folder"),
        ("nobody", {"to": "torch"}, "there is no run called"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(folder, run, options, says):
    before = sorted(os.listdir(folder))
    with pytest.raises(PellucidError, match=says):
        export_run(run, **options)
    assert sorted(os.listdir(folder)) == before


def test_llama_cpp_has_no_words(folder):
    with pytest.raises(
        PellucidError, match=r"llama.cpp has no tokenizer for a table of words. Train with tokens='bpe'"
    ):
        export_run(train_odd("words"), to="gguf")


def test_what_differs_is_not_written(folder, monkeypatch):
    monkeypatch.setattr(subject, "ALLOWED", -1.0)
    before = sorted(os.listdir(folder))
    with pytest.raises(PellucidError, match="so nothing was written"):
        export_run("alone", to="torch", out="never")
    assert sorted(os.listdir(folder)) == before


def test_what_is_not_installed_is_named(folder, monkeypatch):
    monkeypatch.setitem(request.NEEDS, "gguf", ("no_such_package",))
    with pytest.raises(PellucidError, match=r"no_such_package is not installed. Type pip install 'pellucid\[gguf\]'"):
        export_run("alone", to="gguf", out="never")


@pytest.mark.parametrize("card", NETWORKS, ids=lambda card: f"{card.name}-{card.kinds[0]}")
def test_every_network_is_one_file_that_gives_the_same_numbers(card, tmp_path):
    """The source as one file, imported without anything of ours, with the same weights; it can also be trained on."""
    torch.manual_seed(1)
    built = card.build(card.tiny).eval()
    for parameter in built.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    file = tmp_path / "model.py"
    source = gather_source(type(card.tiny), type(built), instead=specialised(card.tiny))
    file.write_text(f"from __future__ import annotations\n\n{source}")
    assert not re.search("(import|from) pellucid", source)
    fields = {name: getattr(card.tiny, name) for name in type(card.tiny).__dataclass_fields__}
    with imported_alone(file) as alone, torch.no_grad():
        twin = getattr(alone, type(built).__name__)(getattr(alone, type(card.tiny).__name__)(**fields)).eval()
        twin.load_state_dict(built.state_dict())
        for inputs in example_inputs(card):
            assert torch.equal(twin(*inputs), built(*inputs))
        with torch.enable_grad():
            assert_same_gradients(twin, built, inputs)


def assert_same_gradients(twin, built, inputs):
    found = []
    for network in (twin, built):
        network(*inputs).square().mean().backward()
        found.append({name: one.grad for name, one in network.named_parameters() if one.grad is not None})
    assert found[0].keys() == found[1].keys() != set()
    for name, gradient in found[1].items():
        assert torch.allclose(found[0][name], gradient, rtol=1e-4, atol=1e-6), name


def test_a_transformer_is_a_page_of_code(folder):
    """Written out for its settings: the numbers and the gradients of the network, in 150 lines."""
    made = export_run("alone", to="torch", out="on-a-page")
    source = Path(made.folder, "model.py").read_text()
    assert len(source.splitlines()) <= 150
    network = load_network(open_run("alone"))[0].eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)  # two steps leave most at the zeros they begin with
    with imported_alone(Path(made.folder, "model.py")) as alone:
        twin = alone.build().eval()
        twin.load_state_dict(network.state_dict())
        tokens = torch.randint(0, network.vocab_size, (3, network.longest))
        assert torch.equal(twin(tokens), network(tokens))
        assert_same_gradients(twin, network, (tokens,))
        with pytest.raises(ValueError, match="tokens came, and this transformer was made for"):
            twin(torch.zeros(1, network.longest + 1, dtype=torch.long))


def example_inputs(card):
    config = card.tiny
    if card.kinds[0] in ("list", "text"):
        return [(torch.randint(0, config.vocab_size, (2, time)),) for time in (1, 6)]
    if card.kinds[0] == "pairs":
        return [(torch.tensor([[3, 1, 2], [2, 0, 0]]), torch.tensor([[0, 1], [0, 2]]))]
    codes = [torch.randint(0, n, (3, 1)) for n in config.categories]
    return [(torch.randn(3, *config.numbers), torch.cat(codes, 1) if codes else torch.zeros(3, 0, dtype=torch.long))]


@pytest.mark.parametrize("has_boundary", [True, False])
@pytest.mark.parametrize(("vocab_size", "order"), [(27, 6), (400, 9)])
def test_tables_of_counts_are_the_counts(vocab_size, order, has_boundary):
    """Full tables, sorted ones, and orders whose codes are ranks."""
    from pellucid.data.prepare.tokens import Corpus

    draw = np.random.default_rng(1)
    tokens = np.minimum(draw.geometric(0.15, 4000) - 1, vocab_size - 1)
    tokens[[0, -1]] = 0
    counts = NGram.fit(Corpus(tokens, has_boundary=has_boundary), NGramConfig(vocab_size, order))
    read = torch.from_numpy(np.concatenate([tokens[90:140], draw.integers(0, vocab_size, 46)]).reshape(4, -1))
    found, wanted = CountTables.of(counts)(read), counts.forward(read)
    assert torch.allclose(found.double(), wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("run", "options", "says"),
    [
        ("sorted", {}, ""),
        ("placed", {"positions": "learned"}, ""),
        ("nowhere", {"positions": "none"}, ""),
        ("turned", {"positions": "rotary"}, "rotary positions, and Pegasus holds"),
        ("behind", {"form": "post"}, "blocks of the form post"),
        ("rolled", {"model": "rnn-encoder-decoder"}, "hf has no encoder-decoder of those"),
        ("in-a-row", {"model": "transformer"}, "reads what fills them, which a tokenizer of hf masks"),
    ],
)
def test_an_encoder_decoder_answers_as_pegasus(folder, run, options, says):
    transformers = pytest.importorskip("transformers")
    train("dedupe-sort", **{"model": "encoder-decoder", "size": "tiny", "steps": 5, "name": run} | options)
    if says:
        with pytest.raises(PellucidError, match=says):
            export_run(run, to="hf")
        assert not Path(f"{run}-hf").exists()
        return
    made = export_run(run, to="hf")
    assert made.check.largest_difference < 1e-5
    assert made.check.reads_the_same
    assert made.check.says_the_same
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(made.folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(made.folder)
    assert type(model).__name__ == "PegasusForConditionalGeneration"
    sources = ["DAA", "C", "ABCD"]
    read = tokenizer(sources, padding=True, return_tensors="pt", return_token_type_ids=False)
    said = tokenizer.batch_decode(model.generate(**read), skip_special_tokens=True)
    assert said == [one.answer for one in ServedRun(run).predict_sources(sources).predictions]
    # Other weights are other numbers: what was compared is not zeros.
    file = Path(made.folder, "model.safetensors")
    tensors = load_file(file)
    for name in ("lm_head.weight", "model.encoder.embed_positions.weight", "model.decoder.layers.0.fc1.weight"):
        save_file({**tensors, name: tensors[name] + 0.1 * torch.randn(tensors[name].shape)}, file, {"format": "pt"})
        opened = subject.Subject.load(open_run(run), is_network_only=False)
        assert check_pairs(opened, Path(made.folder)).largest_difference > 1e-4


@pytest.mark.parametrize(
    ("run", "options", "says"),
    [
        ("labelled", {}, ""),
        ("labelled-by-place", {"positions": "learned"}, ""),
        ("labelled-turned", {"positions": "rotary"}, "rotary positions, and Megatron-BERT holds"),
    ],
)
def test_an_encoder_labels_as_megatron_bert(folder, run, options, says):
    transformers = pytest.importorskip("transformers")
    # What is refused answers nothing; the others are to have labels to compare.
    train("dedupe-sort", model="encoder", size="tiny", steps=1 if says else 60, name=run, **options)
    if says:
        with pytest.raises(PellucidError, match=says):
            export_run(run, to="hf")
        assert not Path(f"{run}-hf").exists()
        return
    made = export_run(run, to="hf")
    assert made.check.largest_difference < 1e-5
    assert made.check.reads_the_same
    model = transformers.AutoModelForTokenClassification.from_pretrained(made.folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(made.folder)
    assert type(model).__name__ == "MegatronBertForTokenClassification"
    sources, said = ["DAA", "C", "ABCD"], []
    for source in sources:
        given = tokenizer(source, padding="max_length", return_tensors="pt", return_token_type_ids=False)
        labels = [*model(**given).logits[0].argmax(-1).tolist(), 0]
        said.append("".join(model.config.id2label[label] for label in labels[: labels.index(0)]))
    assert said == [one.answer for one in ServedRun(run).predict_sources(sources).predictions]
    assert any(said)
    file = Path(made.folder, "model.safetensors")
    tensors, opened = load_file(file), subject.Subject.load(open_run(run), is_network_only=False)
    for name in ("classifier.weight", "bert.embeddings.position_embeddings.weight", "bert.encoder.layer.0.ln.bias"):
        save_file({**tensors, name: tensors[name] + 0.1 * torch.randn(tensors[name].shape)}, file, {"format": "pt"})
        assert check_labels(opened, Path(made.folder)).largest_difference > 1e-4


def test_a_vit_becomes_a_graph_in_a_process_of_its_own(folder, pellucid_program):
    """torch takes `len` of a tensor for a constant, unless an earlier graph of the same process taught it better."""
    pytest.importorskip("onnxruntime")
    train("digits", model="vit", size="tiny", steps=1, name="patches")
    words = [pellucid_program, "export", "patches", "--to", "onnx"]  # a fork of a process that has made no graph
    done = subprocess.run(words, capture_output=True, encoding="utf-8", cwd=folder, check=False)
    assert done.returncode == 0, done.stderr


def test_what_of_a_vit_does_not_fit_is_named(folder):
    train("digits", model="vit", size="tiny", steps=1, name="patched")
    with pytest.raises(PellucidError, match="a hidden layer of 16 between its class token and its scores"):
        export_run("patched", to="hf")
    assert not Path("patched-hf").exists()


DATA = {"list": ("words.txt", {"kind": "list", "start": "scratch"}), "table": ("penguins", {"target": "species"})}
DATA |= {
    "images": ("digits", {}),
    "pairs": ("dedupe-sort", {}),
    "text": ("odd.txt", {"kind": "text", "start": "scratch"}),
}
# Which networks a format has an architecture for; onnx and torch hold all.
HELD = {
    "hf": {("transformer", "list"), ("transformer", "text"), ("encoder-decoder", "pairs"), ("encoder", "pairs")},
    "gguf": {("transformer", "list"), ("transformer", "text")},
}
KINDS = [(card.name, kind, to) for card in NETWORKS for kind in card.kinds if kind in DATA for to in request.FORMATS]


@pytest.mark.parametrize(("name", "kind", "to"), some_of(KINDS, 9))
def test_every_network_goes_into_every_format_or_is_refused(folder, name, kind, to):
    """Checked by the other tool, or refused in one line with nothing written; `make trust` tries them all."""
    for package in request.NEEDS[to]:
        pytest.importorskip(package)
    source, options = DATA[kind]
    run = f"{name}-of-{kind}"
    if not Path("runs", run).exists():
        size = {} if name == "logistic" else {"size": "tiny"}
        train(source, model=name, steps=2, name=run, **size, **options)
    if (name, kind) in HELD.get(to, {(name, kind)}):
        made = export_run(run, to=to)
        assert made.check.largest_difference <= made.check.allowed
        if to == "onnx":
            require_usable(made)
        return
    with pytest.raises(PellucidError, match=name) as refused:
        export_run(run, to=to)
    assert "\n" not in str(refused.value)
    assert not Path(f"{run}-{to}").exists()


@pytest.mark.parametrize(("has_boundary", "has_end"), [(False, False), (True, False), (True, True)])
def test_a_tokenizer_gives_the_same_numbers(has_boundary, has_end):
    texts = ["naïve café\n day·s — 日本 🎉 don't", "To be, or not  to be.\t<x>"]
    kinds = [kind.of(texts, has_boundary, has_end) for kind in (Characters, Words)]
    for known in [*kinds, Bytes(has_boundary, has_end), BPE.train(texts * 5, 270, has_boundary, has_end)]:
        tokenizer = build_tokenizer(known)
        for text in texts:
            ids = tokenizer.encode(text).ids
            assert ids == [0] * has_boundary + known.encode(text)
            assert tokenizer.decode(ids) == text
        assert json.loads(tokenizer.to_str())["model"]["type"] in ("WordLevel", "BPE")
