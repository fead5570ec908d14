"""`pellucid tokens`: indices, contexts and shapes beside what training really reads, and costs beside hand counts."""

import json

import numpy as np
import pytest
import torch

import pellucid as front
from pellucid.data import open_data
from pellucid.data.prepare.tokens import encode_list
from pellucid.errors import PellucidError
from pellucid.models.sequences.windows import pad_start, slide_windows
from pellucid.training.tasks.batches import IGNORED, TextBatches, list_items

TWENTY = " ".join(["above", "below", "right", "house"] * 5)


def sizes(listing):
    return {one.name: one.shape for one in listing.tensors}


def test_indices_are_places_in_the_vocabulary():
    assert front.tokens("bca").indices == (1, 2, 0)
    listing = front.tokens("bad dab", vocabulary="abd ")
    assert listing.indices == (1, 0, 2, 3, 2, 0, 1)
    assert [(one.context_indices, one.target_index) for one in listing.examples] == [
        ((1,), 0),
        ((1, 0), 2),
        ((1, 0, 2), 3),
        ((1, 0, 2, 3), 2),
        ((1, 0, 2, 3, 2), 0),
        ((1, 0, 2, 3, 2, 0), 1),
    ]
    assert sizes(listing)["logits"] == (1, 6, 4)
    # By default sorted by code point, where the space comes before the letters.
    assert front.tokens("bad dab").indices == (2, 1, 3, 0, 3, 1, 2)
    # A word takes the space before it along.
    words = front.tokens("the cat saw", tokens="words", vocabulary="the saw cat")
    assert (words.vocabulary, words.indices) == (("the", " saw", " cat"), (0, 2, 1))


@pytest.mark.parametrize("tokens", ["characters", "words", "bytes", "bpe"])
def test_the_symbols_give_back_the_text(tokens):
    text = "the rain in Spain, naïve or not\n"
    listing = front.tokens(text, tokens=tokens, count=100)
    assert listing.n_tokens == len(listing.indices) == len(listing.symbols)
    from pellucid.data import BPE, Bytes, Characters, Words

    vocabulary = {
        "characters": lambda: Characters.of(text, has_boundary=False),
        "words": lambda: Words.of(text, has_boundary=False),
        "bytes": lambda: Bytes(has_boundary=False),
        "bpe": lambda: BPE.train(text, 512, has_boundary=False),
    }[tokens]()
    assert vocabulary.decode(listing.indices) == text
    assert listing.vocab_size == len(vocabulary)


def test_a_list_is_read_as_training_reads_it():
    names = open_data("names").items[:7]
    whole = front.tokens(names, count=1000)
    batch = list_items(encode_list(names, front_vocabulary(whole))).collate(np.arange(7))
    assert sizes(whole)["tokens"] == tuple(batch.tokens.shape)
    seen = [
        (tuple(row[: place + 1].tolist()), int(targets[place]))
        for row, targets in zip(batch.tokens, batch.targets, strict=True)
        for place in range(len(row))
        if targets[place] != IGNORED
    ]
    assert [(one.context_indices, one.target_index) for one in whole.examples] == seen
    # A window model fills up with token 0 before an item begins, and so does --context.
    windows = slide_windows(pad_start(batch.tokens, 2)[..., None], 3)[batch.targets != IGNORED].tolist()
    windowed = front.tokens(names, context=3, count=1000)
    assert [list(one.context_indices) for one in windowed.examples] == windows
    assert sizes(windowed)["contexts"] == (len(windows), 3)
    assert sizes(windowed)["one-hot"] == (*torch.tensor(windows).shape, whole.vocab_size)


def front_vocabulary(listing):
    from pellucid.data import Characters

    return Characters(listing.vocabulary[1:])


@pytest.mark.parametrize("context", [0, 3, 5, 1000])
def test_a_text_is_read_in_windows(context):
    text = "it was a dark and stormy night; the rain fell in torrents, except at occasional intervals"
    listing = front.tokens(text, count=1000, **({"context": context} if context else {}))
    batches = TextBatches(np.array(listing.indices), batch_size=4, context=context or 64, seed=0)
    assert sizes(listing)["tokens"] == (batches.n_rows, batches.context)
    assert listing.n_left == listing.n_examples - batches.n_rows * batches.context
    for place, one in enumerate(listing.examples):
        began = place // batches.context * batches.context
        assert one.context_indices == listing.indices[began : place + 1]
        assert one.target_index == listing.indices[place + 1]


def test_costs_are_those_counted_by_hand():
    costs = {one.name: one for one in front.tokens(TWENTY, width=32, layers=3).costs}
    assert (costs["characters"].n_tokens, costs["words"].n_tokens) == (119, 20)
    assert costs["characters"].attention_flops / costs["words"].attention_flops == 119**2 / 20**2
    assert costs["words"].attention_flops == 3 * 4 * 20**2 * 32
    assert costs["words"].linear_flops == 3 * 24 * 20 * 32**2 + 2 * 20 * 32 * 5


def test_only_the_first_are_shown_of_a_long_file(pellucid, tmp_path):
    (tmp_path / "long.txt").write_text("one two three four five six seven\n" * 3000)
    run = pellucid("tokens", "long.txt", "--count", "4", "--json")
    listing = json.loads(run.stdout)
    assert (run.returncode, listing["n_tokens"], len(listing["indices"])) == (0, 3000 * 34, 4)
    assert listing["n_costed"] < listing["n_characters"] == 3000 * 34
    said = pellucid("tokens", "long.txt", "--count", "4").stdout
    assert f"and {3000 * 34 - 4:,} tokens more" in said
    assert "Costs of the first 20,000 of 102,000 characters" in said


def test_words_on_the_command_line(pellucid):
    said = pellucid("tokens", TWENTY).stdout
    assert "119 characters against 20 words: 35.4 times the work for attention" in said
    piped = pellucid("tokens", "-", stdin="emma\nava\nmia\n").stdout
    assert "standard input: a list of 3 items" in piped
    one = pellucid("tokens", "a")
    assert (one.returncode, "one token has no next one" in one.stdout) == (0, True)


REFUSED = {
    "TEXT is empty": [""],
    "there is no file 'nams.txt'": ["nams.txt"],
    "'d' is not in --vocabulary": ["bad", "--vocabulary", "ab"],
    "'b' stands in --vocabulary twice": ["bad", "--vocabulary", "abbd"],
    "--vocabulary changes nothing for bytes": ["bad", "--tokens", "bytes", "--vocabulary", "ab"],
    "is no table": ["bad", "--kind", "table"],
    "context is -1": ["bad", "--context", "-1"],
    "text or list is wanted": ["digits"],
}


def test_what_is_refused_loads_no_torch(run_together):
    for said, why in zip(run_together([["tokens", *words] for words in REFUSED.values()]), REFUSED, strict=True):
        assert said.code == 2
        assert why in said.err
        assert "torch" not in said.loaded


def test_python_names_what_is_unknown():
    with pytest.raises(PellucidError, match="Perhaps you meant context"):
        front.tokens("abc", contxt=3)
    assert front.tokens("abx", vocabulary="ab", unknown="skip").indices == (0, 1)
