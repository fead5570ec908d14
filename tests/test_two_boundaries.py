"""Items between <S> and <E> in place of one boundary: in vocabularies, counting, networks, pictures and commands."""

import json
import math
from collections import Counter

import numpy as np
import pytest
import torch

import pellucid as front
from pellucid.data import BPE, Bytes, Characters, Words, open_data, vocabulary_from_json
from pellucid.data.options import DataOptions
from pellucid.data.prepare.tokens import encode_list, split_sequences
from pellucid.errors import PellucidError
from pellucid.figures.drawings.bigram_graph import draw_bigram_graph
from pellucid.models.counting.simple_models import Bigram, BigramConfig, bigram_counts, word_counts
from pellucid.runs import open_run
from pellucid.training.callbacks import Callbacks
from pellucid.training.checkpoints import load_network
from pellucid.training.options import TrainOptions
from pellucid.training.run import train_run
from pellucid.training.tasks.batches import IGNORED, list_items

pytestmark = pytest.mark.usefixtures("one_thread")

WORDS = ["emma", "ava", "olivia", "mia"]


@pytest.mark.parametrize(
    "vocabulary",
    [
        Characters.of(WORDS, has_end=True),
        Words.of(WORDS, has_end=True),
        Bytes(has_end=True),
        BPE.train(WORDS, 262, has_end=True),
    ],
    ids=lambda vocabulary: vocabulary.kind,
)
def test_a_vocabulary_of_two_boundaries(vocabulary):
    assert (vocabulary.tokens[0], vocabulary.tokens[-1], vocabulary.closing) == ("<S>", "<E>", len(vocabulary) - 1)
    assert len(vocabulary.symbols) == len(vocabulary) - 2
    ids = [0, *vocabulary.encode("emma"), vocabulary.closing, 0, *vocabulary.encode("mia"), vocabulary.closing]
    assert vocabulary.decode(ids) == "emmamia"
    again = vocabulary_from_json(json.loads(json.dumps(vocabulary.to_json())))
    assert (again.tokens, again.closing) == (vocabulary.tokens, vocabulary.closing)


def test_a_stored_vocabulary_has_no_end_without_a_beginning():
    stored = {**Characters.of(WORDS, has_boundary=False).to_json(), "has_end": True}
    with pytest.raises(PellucidError, match="has_end is no yes or no"):
        vocabulary_from_json(stored)
    assert "has_end" not in Characters.of(WORDS).to_json()  # as it was before there were two


def test_pairs_are_counted_between_both():
    names = open_data("names")
    found = bigram_counts(names, boundary="two")
    assert len(found.symbols) == 28
    by_hand = Counter(pair for name in names.items for pair in zip(["<S>", *name], [*name, "<E>"], strict=True))
    assert {(found.symbols[one.first], found.symbols[one.second]): one.n for one in found.bigrams} == by_hand
    # Nothing follows <E>, and nothing is followed by <S>.
    assert (found.row_sums()[27], found.column_sums()[0]) == (0, 0)
    assert found.row_sums()[0] == found.column_sums()[27] == len(names.items)


def test_without_smoothing_two_say_what_one_says():
    names = open_data("names").items[:500]
    one, two = Characters.of(names), Characters.of(names, has_end=True)
    ours, theirs = encode_list(names, two), encode_list(names, one)
    closed = Bigram.fit(ours, BigramConfig(len(two), 0.0)).of_each(ours.tokens)
    assert closed == pytest.approx(Bigram.fit(theirs, BigramConfig(len(one), 0.0)).of_each(theirs.tokens))
    assert ours.targets.tolist() == [token or two.closing for token in ours.tokens[1:].tolist()]


def test_emma_has_five_vertices_and_five_edges():
    emma = word_counts("emma", boundary="two")
    assert (emma.symbols, emma.total, len(emma.bigrams)) == (("<S>", "a", "e", "m", "<E>"), 5, 5)
    assert [emma.symbols[place] for place in emma.walk] == ["<S>", "e", "m", "m", "a", "<E>"]
    picture = draw_bigram_graph(emma)
    assert "5 edges between 5 vertices: V = {<S>, e, m, a, <E>}; 1 self-loop" in picture.caption[0]
    assert picture.title == "The bigrams of emma"
    assert picture.svg.count("<circle") == 5


def test_a_batch_is_closed_by_the_end():
    vocabulary = Characters.of(["ab", "b"], has_end=True)
    batch = list_items(encode_list(["ab", "b"], vocabulary)).collate(np.arange(2))
    assert batch.tokens.tolist() == [[0, 1, 2], [0, 2, 0]]
    assert batch.targets.tolist() == [[1, 2, 3], [2, 3, IGNORED]]


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    file = tmp_path_factory.mktemp("data") / "few.txt"
    file.write_text("\n".join(open_data("names").items[::60]) + "\n")
    return file


@pytest.mark.parametrize("start", ["scratch", "counts"])
def test_a_network_of_two_boundaries_is_read_back_and_speaks(few, tmp_path, start):
    reading = DataOptions(str(few), kind="list", boundary="two")
    options = TrainOptions(model="mlp", steps=30, size="tiny", threads=1, start=start)
    report = train_run(reading, options, tmp_path / "run", Callbacks())
    assert report.data.vocab_size == 28
    assert report.data.symbols[0] == "<S>"
    assert "--boundary two" in " ".join(report.command)
    sides = split_sequences(open_data(few, kind="list"), boundary="two")
    model = load_network(open_run(tmp_path / "run"))[0].for_inference().double()
    losses = []
    with torch.inference_mode():
        for name in sides.dev_items:
            ids = sides.vocabulary.encode(name)
            logits = model(torch.tensor([[0, *ids]]))[0].double()
            losses += torch.nn.functional.cross_entropy(logits, torch.tensor([*ids, 27]), reduction="none").tolist()
    assert report.rung.dev == pytest.approx(sum(losses) / len(losses), abs=1e-5)
    run = front.open_run(tmp_path / "run")
    scored = run.score("emma").record
    assert [one.token for one in scored.surprises] == ["e", "m", "m", "a", "<E>"]
    assert not any("<" in sample.text for sample in run.sample(20).record.samples)
    assert not any(sample.is_cut for sample in report.samples)


def test_a_count_run_is_counted_again(few, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = front.train(str(few), kind="list", model="bigram", boundary="two", s=0.5, name="pairs")
    asked = front.score(str(few), "emma", kind="list", model="bigram", boundary="two", s=0.5).record
    assert [one.nats for one in run.score("emma").record.surprises] == [one.nats for one in asked.surprises]
    train = split_sequences(open_data(few, kind="list")).train_items
    n_first = sum(name[0] == "e" for name in train)
    assert asked.surprises[0].nats == pytest.approx(-math.log((n_first + 0.5) / (len(train) + 0.5 * 28)))


def test_only_lists_have_boundaries(run_together):
    commands = {
        "--boundary changes nothing for a text": ["tokens", "manual", "--boundary", "two"],
        "there is no number of boundaries called 'three'": ["sample", "names", "--boundary", "three"],
        "--boundary changes nothing in masks": ["draw", "masks", "--boundary", "two", "--out", "x.svg"],
    }
    for why, said in zip(commands, run_together(commands.values()), strict=True):
        assert said.code == 2
        assert why in said.err


def test_tokens_are_written_out():
    listing = front.tokens(["ab", "b"], boundary="two")
    assert listing.symbols == ("<S>", "a", "b", "<E>", "<S>", "b", "<E>")
    assert (listing.n_tokens, listing.n_examples) == (7, 5)
    assert [(one.context_indices, one.target_index) for one in listing.examples][-1] == ((0, 2), 3)
    assert front.tokens("emma", boundary="two").kind == "list"
