"""A run's network that speaks and judges: from Python, and as `pellucid sample RUN` and `pellucid score RUN`."""

import json
import math

import pytest
import torch
from trust.tiny_runs import CONTEXT, STORY, TRANSFORMER, made

from pellucid.cli import main
from pellucid.decoding.options import SampleOptions
from pellucid.decoding.sampling import draw_tokens
from pellucid.errors import PellucidError
from pellucid.figures.words.notes import note_sentences
from pellucid.models.catalogue import find_network
from pellucid.runs import RunWriter, open_run
from pellucid.training.checkpoints import save_best
from pellucid.training.inference.language_models import TrainedModel, draw_samples, score_text

pytestmark = pytest.mark.usefixtures("one_thread")

LSTM = find_network("lstm", "list")
MLP = find_network("mlp", "list")


@pytest.fixture
def tiny(tmp_path):
    return made(tmp_path, "tiny")


@pytest.fixture
def story(tmp_path):
    return made(tmp_path, "tale", kind="text")


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    """Runs `pellucid` in this process, for torch takes longer to load than all the rest; gives back its stdout."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        out, complaint = capsys.readouterr()
        assert (ended.value.code, complaint) == (0, "")
        return out

    return run


@pytest.fixture
def told(said):
    """The same as JSON."""
    return lambda *words: json.loads(said(*words, "--json"))


class Trained:
    """The network of a run, as Python users ask it."""

    def __init__(self, path):
        self.model = TrainedModel(open_run(path))

    def sample(self, n=None, **options):
        return draw_samples(self.model, SampleOptions(count=n, **options)).samples

    def score(self, text):
        return score_text(self.model, text)

    def __getattr__(self, name):
        return getattr(self.model, name)


def load_trained(path):
    found = Trained(path)
    assert found.facts
    return found


def rounded(samples):
    """The last bits of a sum depend on how many rows were added up beside it."""
    return [sample._replace(nats=round(sample.nats, 9)) for sample in samples]


# From Python


def test_it_speaks_and_says_how_new_that_is(tiny, tmp_path):
    network = load_trained(tiny)
    samples = network.sample(50, seed=3)
    items = (tmp_path / "own.txt").read_text().split()
    assert len({sample.text for sample in samples}) > 10
    for sample in samples:
        assert sample.where in ("train", "dev", "new")
        assert (sample.text in items) >= (sample.where != "new")
        assert sample.nearest in items
    assert network.sample(50, seed=3) == samples
    assert network.sample(50, seed=4) != samples
    assert rounded(network.sample(7, seed=3)) == rounded(samples[:7])
    assert all(sample.text.startswith("an") for sample in network.sample(5, prompt="an"))
    assert network.facts.step == 40
    assert network.facts.dev.nats == 2.2
    assert not network.facts.is_finished


def test_it_judges_as_its_forward_pass_does(tiny):
    network = load_trained(tiny)
    scored = network.score("emma")
    tokens = [0, *network.vocabulary.encode("emma"), 0]
    logs = network.model.model(torch.tensor([tokens[:-1]])).log_softmax(-1)[0].detach().numpy()
    assert [one.nats for one in scored.surprises] == pytest.approx([-logs[t, tokens[t + 1]] for t in range(5)])
    assert [one.token for one in scored.surprises] == ["e", "m", "m", "a", "·"]
    assert [one.context for one in scored.surprises] == ["·", "·e", "·em", "·emm", "·emma"]
    assert scored.where in ("train", "dev", "new")
    assert math.exp(-scored.nats) == pytest.approx(math.prod(one.probability for one in scored.surprises))


def test_a_samples_surprise_is_its_score(tiny):
    network = load_trained(tiny)
    samples = [sample for sample in network.sample(20, temperature=1.5) if sample.text]
    assert max(len(sample.text) for sample in samples) > CONTEXT
    for sample in samples:  # drawn in single precision, judged in double
        assert network.score(sample.text).nats == pytest.approx(sample.nats, rel=1e-6)


@pytest.mark.parametrize("card", [TRANSFORMER, MLP, LSTM], ids=lambda card: card.name)
def test_alone_or_beside_others_cached_or_not(tmp_path, card):
    """The i-th sample is the same in any company. In double precision about one token in 10^14 may differ."""
    network = load_trained(made(tmp_path, "tiny", card=card))
    together = network.sample(300, seed=9)
    for n in (1, 2, 63, 64, 65):
        assert rounded(network.sample(n, seed=9)) == rounded(together[:n])
    options = {"n_samples": 64, "longest": 40, "start": [0], "stop": 0, "seed": 9}
    cached, plain = (draw_tokens(network.reading(is_cached=way), **options) for way in (True, False))
    assert [sample.tokens for sample in cached] == [sample.tokens for sample in plain]
    torch.set_num_threads(2)
    assert rounded(network.sample(300, seed=9)) == rounded(together)


def test_running_text_goes_on_past_the_context(story):
    """The prompt and what is drawn are longer than what the network holds at once."""
    network = load_trained(story)
    (sample,) = network.sample(1, prompt="the cat ", length=5 * CONTEXT)
    assert sample.text.startswith("the cat ")
    assert sample.n_tokens == 5 * CONTEXT == len(sample.text) - len("the cat ")
    (longer,) = network.sample(1, prompt="the cat ", length=9 * CONTEXT)
    assert longer.text.startswith(sample.text)
    # Without a prompt it begins as after a line break, which is not part of the sample.
    (plain,) = network.sample(1, length=7)
    (after,) = network.sample(1, prompt="\n", length=7)
    assert after.text == "\n" + plain.text
    scored = network.score(STORY[:100])
    assert len(scored.surprises) == 100
    assert scored.surprises[0].context == "\n"
    assert scored.surprises[50].context == "…" + STORY[30:50]
    assert scored.where == ""


def test_bytes_know_everything(tmp_path):
    network = load_trained(made(tmp_path, "bytes", kind="text", tokens="bytes"))
    assert network.vocabulary.tokens[network.opening] == "<0A>"
    assert [one.token for one in network.score("é").surprises] == ["<C3>", "<A9>"]


def test_of_a_long_prompt_the_last_tokens_are_used(tiny):
    network = load_trained(tiny)
    assert network.longest_prompt == CONTEXT - 1
    long = network.sample(5, prompt="an" * 5000)
    assert [sample.text for sample in long] == [
        "an" * 5000 + sample.text[CONTEXT - 1 :] for sample in network.sample(5, prompt=("an" * 5000)[1 - CONTEXT :])
    ]


def test_data_that_are_gone_or_changed_leave_novelty_unknown(tiny, tmp_path):
    (tmp_path / "own.txt").write_text("emma\nava\n")
    network = load_trained(tiny)
    assert {sample.where for sample in network.sample(3)} == {"not known"}
    assert "own.txt is not what the run was trained on any more" in note_sentences(network.known.notes)[0]
    assert network.score("emma").where == ""
    (tmp_path / "own.txt").unlink()
    network = load_trained(tiny)
    assert {sample.where for sample in network.sample(3)} == {"not known"}
    assert "is gone" in note_sentences(network.known.notes)[0]


def test_a_run_that_was_moved_is_the_same_run(tiny, tmp_path):
    before = load_trained(tiny).sample(5)
    (tmp_path / "elsewhere").mkdir()
    moved = tiny.rename(tmp_path / "elsewhere" / "other")
    assert load_trained(moved).sample(5) == before  # own.txt is as far from it as before


def test_weights_that_are_damaged_or_not_finite_are_refused(tiny):
    """Row 143."""
    weights = tiny / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(PellucidError, match="is not what was written"):
        load_trained(tiny)
    weights.write_bytes(content)
    model = load_trained(tiny).model.model.float().state_dict()
    model["head.weight"][0, 0] = math.nan
    save_best(tiny, 41, model)
    with pytest.raises(PellucidError, match="not finite"):
        load_trained(tiny)


def test_files_that_do_not_fit_together_are_refused(tiny, tmp_path):
    vocabulary = tiny / "vocabulary.json"
    stored = json.loads(vocabulary.read_text())
    vocabulary.write_text(json.dumps({**stored, "tokens": [*stored["tokens"], "z"]}))
    with pytest.raises(PellucidError, match=r"has 10 symbols and vocabulary\.json 11"):
        load_trained(tiny)
    for content in ("", "[" * 10_000, "{", "\xff"):
        vocabulary.write_text(content, encoding="latin-1")
        with pytest.raises(PellucidError, match=r"vocabulary"):
            load_trained(tiny)
    vocabulary.unlink()
    with pytest.raises(PellucidError, match=r"vocabulary\.json of 'tiny' is damaged: it is missing"):
        load_trained(tiny)
    with RunWriter.create(tmp_path / "runs" / "strange", {"model": "mlp"}, n_bytes=1):
        pass
    with pytest.raises(PellucidError, match="does not describe a network"):
        load_trained(tmp_path / "runs" / "strange")


# As commands


def test_a_run_in_a_process_of_its_own(pellucid, tiny):
    run = pellucid("sample", "tiny", "--seed", "3", "--json")
    assert (run.returncode, run.stderr) == (0, "")
    found = json.loads(run.stdout)
    assert found["model"]["name"] == "transformer"
    assert found["model"]["run"] == "tiny"
    wanted = load_trained(tiny).sample(10, seed=3)
    assert [sample["text"] for sample in found["samples"]] == [sample.text for sample in wanted]


def test_pages_of_a_run(said, tiny):
    page = said("sample", "runs/tiny", "-n", "3")
    assert page == said("sample", str(tiny), "-n", "3") == said("sample", "tiny", "-n", "3")
    assert "transformer of the run tiny, " in page
    assert "weights of step 40, the best so far, as the run is not finished" in page
    assert "3 samples: " in page
    assert "on dev 2.2000 nats" in said("score", "tiny", "emma")


def test_cached_is_uncached_as_commands(told, tiny, story):
    for name in ("tiny", "tale"):
        cached, plain = (told("sample", name, *way)["samples"] for way in ([], ["--no-cache"]))
        assert [sample["text"] for sample in cached] == [sample["text"] for sample in plain]


def test_greedy_top_k_top_p_and_beam(said, told, tiny):
    (greedy,) = told("sample", "tiny", "--temperature", "0")["samples"]
    for way in (["--top-k", "1"], ["--top-p", "1e-9"], ["--beam", "1"], ["--temperature", "1e-9"]):
        assert {sample["text"] for sample in told("sample", "tiny", *way)["samples"]} == {greedy["text"]}
    found = told("sample", "tiny", "--beam", "5", "--length-penalty", "0.5", "--prompt", "an")
    assert len(found["samples"]) == 5 == found["beam"]
    scores = [-sample["nats"] / sample["n_tokens"] ** 0.5 for sample in found["samples"]]
    assert scores == sorted(scores, reverse=True)
    assert all(sample["text"].startswith("an") for sample in found["samples"])
    assert "the best that a beam of 5 found" in said("sample", "tiny", "--beam", "5", "-n", "2")
    assert len(told("sample", "own.txt", "--beam", "3", "--n", "3")["samples"]) == 3
    assert told("sample", "tiny", "--top-k", "3", "--top-p", "0.5")["filters"] == {"top_k": 3, "top_p": 0.5}


@pytest.mark.parametrize("temperature", ["1e-9", "1e9"])
def test_extreme_temperatures_work(told, tiny, temperature):
    assert len(told("sample", "tiny", "--temperature", temperature, "-n", "3")["samples"]) == 3


def test_scores_of_a_run(told, tiny):
    found = told("score", "tiny", "emma")
    wanted = load_trained(tiny).score("emma")
    assert found["sums"]["nats"] == pytest.approx(wanted.nats)
    assert found["where"] == wanted.where
    skipped = told("score", "tiny", "emÉma", "--unknown", "skip")
    assert skipped["sums"]["nats"] == pytest.approx(wanted.nats)
    assert "the text: 'É' left out, never seen in the data" in skipped["notes"]


def test_running_text_of_a_run(told, story):
    (sample,) = told("sample", "tale", "--prompt", "the ", "--length", "50")["samples"]
    assert len(sample["text"]) == 54
    assert sample["copied"] in STORY
    assert len(told("sample", "tale", "-n", "3", "--length", "5")["samples"]) == 3
    found = told("sample", "tale", "--prompt", "the cat " * 2000, "--length", "5")
    assert f"the prompt has 16,000 tokens; the last {CONTEXT} were used" in found["notes"]


def test_where_a_run_and_data_have_one_name_the_run_is_meant(told, tmp_path):
    made(tmp_path, "names")
    assert told("sample", "names")["model"]["name"] == "transformer"
    counted = told("sample", "names", "--model", "bigram")
    assert counted["model"]["name"].startswith("bigram")
    assert "30,000" in counted["model"]["source"]


REFUSED = {
    "sample tiny --model ngram": "--model changes nothing for the run 'tiny'",
    "sample tiny --kind text": "--kind changes nothing for the run 'tiny'",
    "score tiny emma --n 3": "--n changes nothing for the run 'tiny'",
    "sample tiny --length 5": "--length changes nothing for a list",
    "sample tiny --prompt xÉ": "'x' (character 1), 'É' (character 2) of the prompt were never seen",
    "score tiny Zoe": "'Z' (character 1) of the text was never seen",
    "score tiny É --unknown skip": "nothing of the text is left",
    "sample tiny --unknown drop": "there is no way to treat the unknown called 'drop'",
    "sample tiny --temperature -1": "the temperature is -1",
    "sample tiny --temperature nan": "the temperature is nan",
    "sample tiny --top-k 0": "top-k is 0",
    "sample tiny --top-k -1": "top-k is -1",
    "sample tiny --top-k 11": "top-k is 11 and there are 10 tokens",
    "sample own.txt --top-k 11": "top-k is 11 and there are 10 tokens",
    "sample tiny --top-p 0": "top-p is 0",
    "sample tiny --top-p 2": "top-p is 2",
    "sample tiny --top-p nan": "top-p is nan",
    "sample tiny --seed -1": "the seed is -1",
    "sample tiny --seed 18446744073709551616": "the seed is 18446744073709551616",
    "sample tiny --beam 0": "the beam is 0",
    "sample tiny --beam 2000": "the beam is 2,000",
    "sample tiny --beam 2 -n 3": "a beam of 2 finds at most 2, and --count is 3",
    "sample tiny --beam 2 --top-k 3": "--top-k changes nothing with --beam",
    "sample tiny --beam 2 --seed 3": "--seed changes nothing with --beam",
    "sample tiny --beam 2 --length-penalty -1": "the length penalty is -1",
    "sample tiny --length-penalty 1": "--length-penalty changes nothing without --beam",
    "sample tiny --temperature 0 --top-p 0.5": "--top-p changes nothing at temperature 0",
    "sample own.txt --no-cache": "--no-cache changes nothing for a model that counts",
    "sample tny": "there is no run called 'tny'. Perhaps you meant tiny",
    "sample runs/nothing": "there is no run called 'runs/nothing'",
    "sample elsewhere.txt": "there is no file 'elsewhere.txt'",
}


def test_bad_wishes_are_refused_before_torch_is_loaded(tiny, run_together):
    for said in run_together(words.split() for words in REFUSED):
        assert (said.code, said.out) == (2, ""), said
        assert not said.loaded & {"torch", "polars"}, said
        assert REFUSED[" ".join(said.words)] in said.err
        assert said.err.count("\n") == 1, said
        assert len(said.err) <= 241
