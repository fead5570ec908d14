"""`pellucid sample` and `pellucid score`, as a user runs them."""

import json
import math
import subprocess
import sys

import pytest

NAMES = ("emma", "ava", "mia", "olivia", "noah", "liam", "anna", "hannah", "nina", "lina", "mila", "noa")


@pytest.fixture
def names(tmp_path):
    """60 made-up names: every side has some."""
    items = [first + end for first in NAMES for end in ("", "n", "na", "li", "mo")]
    (tmp_path / "own.txt").write_text("\n".join(items) + "\n")
    return "own.txt"


def answer(run):
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    return json.loads(run.stdout)


def refusal(run):
    assert run.returncode == 2, run.stdout + run.stderr
    assert run.stdout == ""
    assert len(run.stderr.splitlines()) == 1
    assert len(run.stderr) <= 241
    return run.stderr


def test_samples_with_their_novelty(pellucid, names, tmp_path):
    said = answer(pellucid("sample", names, "--n", "3", "-n", "20", "--json"))
    items = (tmp_path / names).read_text().split()
    assert len(said["samples"]) == 20
    for sample in said["samples"]:
        assert (sample["where"] == "new") <= (sample["distance"] > 0)
        assert sample["nearest"] in items
        assert sample["copied"] in sample["text"]
        if sample["where"] != "new":
            assert sample["text"] in items
    assert said["model"]["name"] == "3-gram, modified Kneser–Ney"
    assert said["model"]["n_entries"] == said["model"]["vocab_size"] ** 3
    assert dict(said["model"]["baselines"]).keys() == {"uniform", "unigram", "bigram"}


def test_the_same_seed_gives_the_same_samples(pellucid, names):
    first = answer(pellucid("sample", names, "--seed", "3", "--json"))
    assert first == answer(pellucid("sample", names, "--seed", "3", "--json"))
    fewer = answer(pellucid("sample", names, "--seed", "3", "-n", "2", "--json"))
    assert fewer["samples"] == first["samples"][:2]
    assert first["samples"] != answer(pellucid("sample", names, "--seed", "4", "--json"))["samples"]


def test_a_prompt_is_what_each_sample_begins_with(pellucid, names):
    said = answer(pellucid("sample", names, "--prompt", "ha", "--json"))
    assert all(sample["text"].startswith("ha") for sample in said["samples"])
    assert answer(pellucid("sample", names, "--prompt", "", "--json"))["prompt"] == ""
    long = answer(pellucid("sample", names, "--prompt", "an" * 1000, "-n", "1", "--json"))
    assert "the prompt has 2,000 tokens; the last 1,000 were used" in long["notes"]


def test_unknown_characters_are_named_with_their_places_or_skipped(pellucid, names):
    said = refusal(pellucid("sample", names, "--prompt", "hÉ!"))
    assert "'É' (character 2), '!' (character 3) of the prompt were never seen in the data" in said
    assert "--unknown skip" in said
    skipped = answer(pellucid("sample", names, "--prompt", "hÉa!", "--unknown", "skip", "--json"))
    assert all(sample["text"].startswith("ha") for sample in skipped["samples"])
    assert "the prompt: 'É', '!' left out, never seen in the data" in skipped["notes"]
    assert "'Z' (character 1) of the text was never seen" in refusal(pellucid("score", names, "Zoe"))
    # Bytes know everything.
    answer(pellucid("score", names, "Zoé", "--tokens", "bytes", "--json"))


def test_temperature_0_is_greedy(pellucid, names):
    said = answer(pellucid("sample", names, "--temperature", "0", "--json"))
    assert len(said["samples"]) == 1
    assert any("one sample stands for all" in note for note in said["notes"])


@pytest.mark.parametrize("temperature", ["1e-9", "1e9"])
def test_extreme_temperatures_work(pellucid, names, temperature):
    answer(pellucid("sample", names, "--temperature", temperature, "-n", "3", "--json"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--temperature -1", "the temperature is -1"),
        ("--temperature nan", "the temperature is nan"),
        ("--temperature inf", "the temperature is inf"),
        ("--seed -1", "the seed is -1"),
        ("--seed 18446744073709551616", "the seed is 18446744073709551616"),
        ("-n 0", "count is 0"),
        ("-n 10001", "count is 10,001"),
        ("--length 0", "length is 0"),
        ("--length 5", "--length changes nothing for a list"),
        ("--n 0", "n is '0'"),
        ("--n 101", "n is '101'"),
        ("--n 2.5", "n is '2.5'"),
        ("--n ٣", "n is '٣'"),
        ("--s nan --smoothing add", "s is nan"),
        ("--s -1 --smoothing add", "s is -1"),
        ("--s 2", "--s changes nothing for ngram with kneser-ney"),
        ("--discount 2", "discount is 2"),
        ("--model bigrm", "there is no count model called 'bigrm'. Perhaps you meant bigram"),
        ("--model bigram --n 3", "--n changes nothing for bigram"),
        ("--smoothing kneser", "there is no smoothing called 'kneser'. Perhaps you meant kneser-ney"),
        ("--tokens letters", "there is no kind of tokens called 'letters'"),
        ("--unknown drop", "there is no way to treat the unknown called 'drop'"),
        ("--kind table", "own.txt was read as table, and list or text is wanted"),
        ("--tmperature 1", "--temperature"),
    ],
)
def test_bad_wishes_are_refused(pellucid, names, words, said):
    assert said in refusal(pellucid("sample", names, *words.split()))


def test_bad_data_are_refused(pellucid, names, tmp_path):
    assert "there is no file 'owm.txt'" in refusal(pellucid("sample", "owm.txt"))
    (tmp_path / "empty.txt").write_text("")
    assert "empty" in refusal(pellucid("score", "empty.txt", "a"))
    (tmp_path / "one.txt").write_text("a\n")
    refusal(pellucid("sample", "one.txt", "--kind", "list"))
    (tmp_path / "short.txt").write_text("ab")
    refusal(pellucid("sample", "short.txt", "--kind", "text"))
    (tmp_path / "table.csv").write_text("a,b\n1,2\n2,3\n")
    assert "list or text is wanted" in refusal(pellucid("sample", "table.csv"))
    assert "TEXT is empty" in refusal(pellucid("score", names, ""))
    assert "nothing of the text is left" in refusal(pellucid("score", names, "ÉÉ", "--unknown", "skip"))


def test_every_character_of_a_word_has_its_surprise(pellucid, names):
    said = answer(pellucid("score", names, "emma", "--model", "bigram", "--s", "0.5", "--json"))
    assert [one["token"] for one in said["surprises"]] == ["e", "m", "m", "a", "·"]
    assert [one["context"] for one in said["surprises"]] == ["·", "e", "m", "m", "a"]
    for one in said["surprises"]:
        assert one["nats"] == pytest.approx(-math.log(one["probability"]))
    sums = said["sums"]
    assert sums["nats"] == pytest.approx(sum(one["nats"] for one in said["surprises"]))
    assert sums["mean_bits"] == pytest.approx(sums["nats"] / 5 / math.log(2))
    assert sums["perplexity"] == pytest.approx(math.exp(sums["nats"] / 5))
    assert said["where"] in ("train", "dev", "new")


def test_what_was_never_seen_is_said_to_be_impossible(pellucid, names):
    run = pellucid("score", names, "vvv", "--model", "bigram", "--s", "0")
    assert run.returncode == 0
    assert "in all infinite nats, probability 0" in run.stdout
    assert "impossible: never seen here" in run.stdout
    assert "s 0.1 mends it" in run.stdout
    assert answer(pellucid("score", names, "vvv", "--model", "bigram", "--s", "0", "--json"))["sums"]["nats"] == "inf"


def test_running_text(pellucid, tmp_path):
    (tmp_path / "story.txt").write_text("the cat saw the dog and the dog saw the cat. " * 40)
    said = answer(pellucid("sample", "story.txt", "--kind", "text", "--length", "80", "--prompt", "the ", "--json"))
    (sample,) = said["samples"]
    assert len(sample["text"]) == 84
    assert sample["text"].startswith("the ")
    assert sample["copied"] in sample["text"]
    assert said["model"]["source"] == "story.txt: running text of 1,800 characters"
    words = ["--kind", "text", "--tokens", "words", "--n", "2"]
    assert len(answer(pellucid("sample", "story.txt", *words, "-n", "3", "--length", "5", "--json"))["samples"]) == 3
    scored = answer(pellucid("score", "story.txt", "the dog", "--kind", "text", "--n", "3", "--json"))
    assert [one["context"] for one in scored["surprises"]] == ["", "t", "th", "he", "e ", " d", "do"]


def test_pages_for_a_terminal(pellucid, names):
    run = pellucid("sample", names, "--n", "2", "-n", "3")
    assert "3 samples: " in run.stdout
    assert "nearest in train" in run.stdout
    assert "beside it on dev: uniform " in run.stdout
    run = pellucid("score", names, "emma")
    assert "█" in run.stdout
    assert "perplexity" in run.stdout
    assert "chosen on dev from 7; by n 1: " in run.stdout


def test_torch_is_never_loaded(tmp_path, names):
    code = (
        "import sys; from pellucid.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: print([name for name in ('torch', 'polars', 'pandas') if name in sys.modules])"
    )
    for words in (["sample", names], ["score", names, "emma"], ["sample", "nowhere.txt"]):
        run = subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, encoding="utf-8", check=True, cwd=tmp_path
        )
        assert run.stdout.splitlines()[-1] == "[]"
