"""Vocabularies: what goes in comes back out; what was never seen is named; JSON keeps all of it."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.at_length import examples

from pellucid.data import BPE, Bytes, Characters, Words, open_data, vocabulary_from_json
from pellucid.data.prepare import encode_list, encode_text
from pellucid.data.prepare import tokens as corpus_module
from pellucid.data.streamed_text import StreamedText
from pellucid.errors import PellucidError
from pellucid.lessons.token_costs import token_costs

TEXT = "The capital of France is Paris; isn't it? It is.\nZoë's naïve café, 32×32!"
# Learned once: training is the slow part.
PAIRS = BPE.train([TEXT] * 5, size=300)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def ways(text):
    """Each kind of vocabulary that knows this text."""
    known = text + "ab"
    return [
        Characters.of(known), Characters.of(known, has_boundary=False), Words.of([known]), Words.of([known, text]),
        Bytes(), Bytes(has_boundary=False), PAIRS,
    ]  # fmt: skip


@settings(max_examples=examples(200))
@given(texts)
def test_decoding_gives_back_what_was_encoded(text):
    for vocabulary in ways(text):
        if isinstance(vocabulary, Words) and not set(vocabulary.encode(text, unknown="skip")):
            continue
        if not isinstance(vocabulary, Words):
            ids = vocabulary.encode(text)
            assert vocabulary.decode(ids) == text
            assert all(vocabulary.has_boundary <= i < len(vocabulary) for i in ids)
    words = Words.of([text + "ab", text])
    assert words.decode(words.encode(text)) == text


@settings(max_examples=examples(100))
@given(texts)
def test_a_vocabulary_survives_json(text):
    for vocabulary in ways(text):
        again = vocabulary_from_json(json.loads(json.dumps(vocabulary.to_json())))
        assert again.tokens == vocabulary.tokens
        assert again.has_boundary == vocabulary.has_boundary
        assert again.encode(text, unknown="skip") == vocabulary.encode(text, unknown="skip")


def test_the_boundary_is_0_and_is_shown_as_a_dot():
    for vocabulary in (Characters.of(["ab"]), Words.of(["ab"]), Bytes(), PAIRS):
        assert vocabulary.tokens[0] == "·"
        assert vocabulary.has_boundary
        assert len(vocabulary) == len(vocabulary.tokens)
        assert vocabulary.decode([0, *vocabulary.encode("ab", unknown="skip"), 0]) in ("ab", "")
    assert Characters.of("ab", has_boundary=False).tokens == ["a", "b"]


def test_the_notes_tokeniser():
    # "bad dab" becomes (1, 0, 2, 3, 2, 0, 1) where a, b, d and the space are 0 to 3.
    vocabulary = Characters(["a", "b", "d", " "], has_boundary=False)
    assert vocabulary.encode("bad dab") == [1, 0, 2, 3, 2, 0, 1]


def test_a_boundary_character_in_the_data_is_a_character():
    vocabulary = Characters.of(["a·b"])
    assert vocabulary.tokens == ["·", "a", "b", "·"]
    assert vocabulary.encode("·") == [3]
    assert vocabulary.decode([0, 3, 0]) == "·"


@pytest.mark.parametrize(
    ("vocabulary", "text", "says"),
    [
        (
            Characters.of(["emma"]),
            "Emma",
            r"the character 'E' \(U\+0045\) was never seen in the data. Write 'e', or use",
        ),
        (Characters.of(["emma"]), "em\x1b", r"the character '\\x1b' \(U\+001B\) was never seen"),
        (Words.of(["to be or not"]), "to bee", r"the word ' bee' was never seen in the data. Write ' be'"),
    ],
)
def test_what_was_never_seen_is_named(vocabulary, text, says):
    with pytest.raises(PellucidError, match=says):
        vocabulary.encode(text)
    assert len(vocabulary.encode(text, unknown="skip")) < len(text)
    with pytest.raises(PellucidError, match="Choose one of error, skip"):
        vocabulary.encode(text, unknown="guess")


def test_tokens_that_do_not_exist():
    for vocabulary in (Characters.of(["ab"]), Bytes(), PAIRS):
        for wrong in (-1, len(vocabulary)):
            with pytest.raises(PellucidError, match=f"there is no token {wrong}"):
                vocabulary.decode([wrong])


@pytest.mark.parametrize(
    "stored",
    [
        None, [], {}, {"kind": "os.system"}, {"kind": "bytes"}, {"kind": "bytes", "has_boundary": 1},
        {"kind": "characters", "has_boundary": True}, {"kind": "characters", "has_boundary": True, "tokens": "ab"},
        {"kind": "characters", "has_boundary": True, "tokens": ["a", "a"]},
        {"kind": "characters", "has_boundary": True, "tokens": ["ab"]},
        {"kind": "characters", "has_boundary": True, "tokens": [1]},
        {"kind": "words", "has_boundary": True, "tokens": [""]},
        {"kind": "bpe", "has_boundary": True}, {"kind": "bpe", "has_boundary": True, "tokenizer": {"model": 3}},
    ],
)  # fmt: skip
def test_a_damaged_vocabulary_is_refused(stored):
    with pytest.raises(PellucidError, match="is damaged"):
        vocabulary_from_json(stored)


def test_byte_pairs_learn_what_is_frequent_and_nothing_is_unknown():
    assert len(PAIRS) <= 300
    assert len(PAIRS.encode("capital")) < len("capital")
    assert PAIRS.decode(PAIRS.encode("日本 🙂 zzz")) == "日本 🙂 zzz"
    with pytest.raises(PellucidError, match="a vocabulary of 100 is outside 257 to 200,000"):
        BPE.train([TEXT], size=100)
    with pytest.raises(PellucidError, match=r"half a surrogate pair, U\+D800"):
        PAIRS.encode("a\ud800")


def items_in(corpus):
    """The tokens of each item, without its boundaries."""
    ends = [*corpus.starts[1:], len(corpus) - 1]
    return [corpus.tokens[start + 1 : end] for start, end in zip(corpus.starts, ends, strict=False)]


def test_a_list_becomes_one_stream_with_one_boundary_between_items():
    names = open_data("names")
    vocabulary = Characters.of(names)
    corpus = encode_list(names, vocabulary)
    assert len(vocabulary) == 27
    assert corpus.tokens.dtype == "uint8"
    assert corpus.n_predicted == sum(len(name) + 1 for name in names.items) == len(corpus) - 1
    assert len(corpus.starts) == 30_000
    assert (corpus.tokens[corpus.starts] == 0).all()
    assert int((corpus.tokens == 0).sum()) == 30_001
    for i in (0, 1, 12_345, 29_999):
        assert vocabulary.decode(items_in(corpus)[i].tolist()) == names.items[i]
    with pytest.raises(PellucidError, match="a list needs a vocabulary with a boundary"):
        encode_list(["a"], Characters.of("ab", has_boundary=False))


@settings(max_examples=examples(100))
@given(st.lists(texts, max_size=6))
def test_a_stream_is_what_encoding_each_item_gives(items):
    for vocabulary in (Characters.of([*items, "ab"]), Bytes(), PAIRS):
        corpus = encode_list(items, vocabulary)
        expected = [0]
        for item in items:
            expected += [*vocabulary.encode(item), 0]
        assert corpus.tokens.tolist() == expected
        assert [item.tolist() for item in items_in(corpus)] == [vocabulary.encode(item) for item in items]


@settings(max_examples=examples(100))
@given(texts)
def test_running_text_has_no_boundary(text):
    for vocabulary in (Characters.of(text + "ab", has_boundary=False), Bytes(has_boundary=False), PAIRS):
        corpus = encode_text(text, vocabulary)
        assert corpus.tokens.tolist() == vocabulary.encode(text)
        assert (corpus.has_boundary, len(corpus.starts)) == (False, 0)


def test_unknown_characters_of_a_stream():
    vocabulary = Characters.of(["ab"])
    with pytest.raises(PellucidError, match="the character 'z'"):
        encode_list(["ab", "az"], vocabulary)
    assert encode_list(["ab", "az"], vocabulary, unknown="skip").tokens.tolist() == [0, 1, 2, 0, 1, 0]
    with pytest.raises(PellucidError, match="the character 'é'"):
        encode_text("abé", Characters.of("ab", has_boundary=False))
    assert encode_text("aéb", Characters.of("ab", has_boundary=False), unknown="skip").tokens.tolist() == [0, 1]


def test_many_tokens_go_to_a_file_without_a_name(tmp_path, monkeypatch):
    import numpy

    path = tmp_path / "text.txt"
    path.write_text("words and more words é " * 60_000)
    data = open_data(path)
    vocabulary = Characters.of(data, has_boundary=False)
    held = encode_text(data, vocabulary)
    monkeypatch.setattr(corpus_module, "MOST_IN_MEMORY", 1 << 20)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mapped = encode_text(data, vocabulary)
    assert isinstance(mapped.tokens, numpy.memmap)
    assert (mapped.tokens == held.tokens).all()
    assert [one.name for one in tmp_path.iterdir()] == ["text.txt"]
    for words in (Words.of(data, has_boundary=False), BPE.train(data, 300, has_boundary=False)):
        assert words.decode(encode_text(data, words).tokens.tolist()) == data.read()


def test_tokens_cost_what_the_sources_say():
    text = " ".join(["abcde", "fghij", "klmno", "pqrst"] * 5)
    characters, in_bytes, words, pairs = token_costs(text, width=64, n_layers=4)
    assert (characters.n_tokens, words.n_tokens) == (119, 20)
    assert characters.attention_flops / words.attention_flops == pytest.approx(35.4025)
    assert words.n_tokens <= pairs.n_tokens < characters.n_tokens == in_bytes.n_tokens
    # By hand: 4 layers of 4 n² d; and 24 n d² in each, with 2 n d V for the scores.
    assert characters.attention_flops == 4 * 4 * 119**2 * 64
    assert characters.linear_flops == 4 * 24 * 119 * 64**2 + 2 * 119 * 64 * 21
    assert words.attention_ratio == 1.0
    with pytest.raises(PellucidError, match="there is no text"):
        token_costs("  ")


@pytest.mark.parametrize("has_boundary", [True, False])
@pytest.mark.parametrize("kind", ["characters", "words", "bytes", "bpe"])
def test_streamed_text_is_the_whole_text_in_pieces(kind, has_boundary):
    """Tokens drawn at random, so that most characters of several bytes are torn, and none of it is taken back."""
    texts = ["naïve café, 日本語 – ok 🙂", "é 日 x y z"] * 3
    made = {
        "characters": lambda: Characters.of(texts, has_boundary),
        "words": lambda: Words.of(texts, has_boundary),
        "bytes": lambda: Bytes(has_boundary),
        "bpe": lambda: BPE.train(texts, 300, has_boundary),
    }
    vocabulary = made[kind]()
    chance = random.Random(1)
    cases = [[chance.randrange(len(vocabulary)) for _ in range(chance.randrange(30))] for _ in range(200)]
    for ids in [*cases, vocabulary.encode(texts[0])]:
        stream = StreamedText(vocabulary)
        pieces = [stream.add(token) for token in ids]
        assert "".join(pieces) + stream.end() == vocabulary.decode(ids)
