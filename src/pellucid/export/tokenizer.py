"""tokenizer.json of any vocabulary, as the `tokenizers` package and transformers read it; the numbers are the same.

    characters, words    a table, and a pattern that cuts the text; what was never seen is an error there too
    bytes, bpe           bytes as GPT-2 writes them; with merges, or without any

Where a list has boundaries they are special tokens, and the one that opens an item is put before every text.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pellucid.data.vocabularies import WORD_PATTERN, Vocabulary
from pellucid.errors import PellucidError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BOUNDARY, START, END = "<|boundary|>", "<|start|>", "<|end|>"
ANY_CHARACTER = r"[\s\S]"
# What Python's re takes for letters and for space. There, accents that combine are no letters, and the separators from
# U+001C on are space; by their own names, `tokenizers` has both the other way round.
LETTER, SPACE = r"\p{L}\p{N}_", r"\s\x{1c}-\x{1f}"


def build_tokenizer(vocabulary: Vocabulary) -> Tokenizer:
    """The vocabulary as a tokenizer of the `tokenizers` package.

    >>> from pellucid.data.vocabularies import Characters
    >>> built = build_tokenizer(Characters.of(["bad", "dab"]))
    >>> built.encode("dab").tokens, built.encode("dab").ids, built.decode([3, 1, 2])
    (['<|boundary|>', 'd', 'a', 'b'], [0, 3, 1, 2], 'dab')
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors

    stored = vocabulary.to_json()
    if stored["kind"] == "bpe":
        tokenizer = Tokenizer.from_str(json.dumps(_shifted(stored["tokenizer"], vocabulary.shift)))
    elif stored["kind"] == "bytes":
        letters = byte_letters()
        tokenizer = Tokenizer(
            models.BPE(vocab={letters[byte]: byte + vocabulary.shift for byte in range(256)}, merges=[])
        )
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.decoder = decoders.ByteLevel()
    else:
        symbols = {symbol: place for place, symbol in enumerate(vocabulary.symbols, start=vocabulary.shift)}
        tokenizer = Tokenizer(models.WordLevel(vocab=symbols, unk_token="<|unknown|>"))
        pattern = ANY_CHARACTER if stored["kind"] == "characters" else word_pattern()
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
        tokenizer.decoder = decoders.Fuse()
    names = special_tokens(vocabulary)
    if names:
        # Under numbers of our own: those that were left free for them.
        tokenizer = Tokenizer.from_str(_with_vocabulary(tokenizer, {name: place for place, name in names.items()}))
        tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names.values()])
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{names[0]} $A", special_tokens=[(names[0], 0)]
        )
    if tokenizer.get_vocab_size() != len(vocabulary):
        raise PellucidError(
            f"the vocabulary has {len(vocabulary)} tokens, and its tokenizer.json would have "
            f"{tokenizer.get_vocab_size()}",
            fix="A token of it is called as a boundary is; train without it",
        )
    return tokenizer


def word_pattern() -> str:
    """The pattern that cuts words, as the `tokenizers` package has to be told it."""
    parts = (part.replace(r"\s", f"[{SPACE}]").replace(r"\w", f"[{LETTER}]") for part in WORD_PATTERN.split(r"[^\w\s]"))
    return f"[^{LETTER}{SPACE}]".join(parts)


def special_tokens(vocabulary: Vocabulary) -> dict[int, str]:
    """The boundaries of a vocabulary, by their numbers."""
    if not vocabulary.has_boundary:
        return {}
    return {0: START, vocabulary.closing: END} if vocabulary.has_end else {0: BOUNDARY}


def byte_letters() -> list[str]:
    """The letter that stands for each byte in GPT-2's vocabulary: itself where it can be seen, else one from 256 on.

    >>> byte_letters()[65], byte_letters()[32], byte_letters()[0]
    ('A', 'Ġ', 'Ā')
    """
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in seen]
    return [chr(byte) if byte in seen else chr(256 + hidden.index(byte)) for byte in range(256)]


def _shifted(stored: dict[str, Any], shift: int) -> dict[str, Any]:
    model = stored["model"]
    return {
        **stored,
        "model": {**model, "vocab": {token: place + shift for token, place in model["vocab"].items()}},
        "added_tokens": [],
    }


def _with_vocabulary(tokenizer: Tokenizer, more: dict[str, int]) -> str:
    """The tokenizer's JSON with more tokens in its model, under numbers of our choice."""
    plain = json.loads(tokenizer.to_str())
    plain["model"]["vocab"] |= more
    return json.dumps(plain)
