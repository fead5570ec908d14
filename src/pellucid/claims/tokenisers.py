"""Tokenisers: what characters and words cost, which are predicted better, and what a fixed context does.

Texts are slices of the manual of Python, another for each seed, or a user's own.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search, yes
from pellucid.errors import PellucidError
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    import numpy
    from torch import Tensor

    Array = numpy.ndarray[Any, Any]

BAD_DAB = (1, 0, 2, 3, 2, 0, 1)
BLOCK, LONGER = 16, 64


# What a sentence costs


@dataclass(frozen=True)
class SentenceKnobs:
    words: int = option(20, "Words of the sentence.", minimum=1, maximum=1000)
    letters: int = option(5, "Letters of each.", minimum=1, maximum=100)
    counted: str = option("all", "FLOPs that are counted", choices=("all", "attention"))
    width: int = option(512, "Embedding (model) dimension of the transformer.", minimum=8, maximum=16_384)
    layers: int = option(2, "Its layers.", minimum=1, maximum=100)

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def sentence(self) -> str:
        return " ".join(["abcdefghij"[at % 10] * self.letters for at in range(self.words)])


def count_tokens(knobs: SentenceKnobs) -> Numbers:
    """The tokens of a sentence as characters and as words."""
    from pellucid.data.vocabularies import Characters, Words

    text = knobs.sentence
    return {
        "characters": float(len(Characters(sorted(set(text)), has_boundary=False).encode(text))),
        "words": float(len(Words.of([text], has_boundary=False).encode(text))),
    }


def measure_costs(knobs: SentenceKnobs) -> Numbers:
    """By the formula of `pellucid draw token-costs`."""
    from pellucid.lessons.token_costs import token_costs

    costs = {one.name: one for one in token_costs(knobs.sentence, width=knobs.width, n_layers=knobs.layers)}
    by_attention = costs["characters"].attention_flops / costs["words"].attention_flops
    whole = [costs[name].attention_flops + costs[name].linear_flops for name in ("characters", "words")]
    return {
        "times as dear": whole[0] / whole[1] if knobs.counted == "all" else by_attention,
        "by attention alone": by_attention,
        "by all": whole[0] / whole[1],
        "attention's part of characters": costs["characters"].attention_flops / whole[0],
    }


def count_costs_by_torch(knobs: SentenceKnobs) -> Numbers:
    """What torch counts while our transformer reads so many tokens."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from pellucid.data.vocabularies import Words
    from pellucid.models.sequences.configs import TransformerConfig
    from pellucid.models.sequences.transformer import Transformer

    found = []
    kinds = len({*Words.of([knobs.sentence], has_boundary=False).cut(knobs.sentence)})
    for n, vocab_size in ((len(knobs.sentence), len(set(knobs.sentence))), (knobs.words, kinds)):
        with torch.device("meta"):
            model = Transformer(TransformerConfig(vocab_size, n, knobs.width, knobs.layers, 1, positions="learned"))
            with FlopCounterMode(display=False) as counter:
                model(torch.zeros(1, n, dtype=torch.long))
        found.append(counter.get_total_flops())
    return {"by all": found[0] / found[1]}


@dataclass(frozen=True)
class LetterKnobs:
    tokens: str = option("characters", "What a token is", choices=("characters", "bytes", "words"))

    def __post_init__(self) -> None:
        check_options(self)


def count_letters(knobs: LetterKnobs) -> Numbers:
    """The tokens of two words by each vocabulary."""
    from pellucid.data.vocabularies import Bytes, Characters, Words

    vocabulary = {
        "characters": Characters(sorted("FranceParis"), has_boundary=False),
        "bytes": Bytes(has_boundary=False),
        "words": Words.of(["France", "Paris"], has_boundary=False),
    }[knobs.tokens]
    return {word: float(len(vocabulary.encode(word))) for word in ("France", "Paris")}


@dataclass(frozen=True)
class WholeTextKnobs:
    tokens: int = option(1_000_000, "Tokens of the text.", minimum=256, maximum=10**12)
    width: int = option(384, "Embedding (model) dimension of the transformer.", minimum=8, maximum=16_384)
    block: int = option(256, "Tokens in a block.", minimum=8, maximum=65_536)

    def __post_init__(self) -> None:
        check_options(self)


def measure_whole_text(knobs: WholeTextKnobs) -> Numbers:
    """FLOPs of one layer, 4 n² d and 24 n d², for the text at once and in blocks; and what its scores take."""

    def flops(n: int) -> float:
        return 4.0 * n * n * knobs.width + 24.0 * n * knobs.width**2

    at_once, in_blocks = flops(knobs.tokens), flops(knobs.block) * knobs.tokens / knobs.block
    return {
        "times as dear": at_once / in_blocks,
        "TFLOPs of a layer at once": at_once / 1e12,
        "in blocks": in_blocks / 1e12,
        "GB of one head's scores": 4.0 * knobs.tokens**2 / 1e9,
    }


def extrapolate_by_torch(knobs: WholeTextKnobs) -> Numbers:
    """What torch counts in a layer at three lengths, and the parabola through them."""
    import numpy as np
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from pellucid.models.sequences.configs import TransformerConfig
    from pellucid.models.sequences.transformer import Block

    lengths, counts = (32, 64, 128), []
    with torch.device("meta"):
        layer = Block(TransformerConfig(8, 128, knobs.width, 1, 1))
        for n in lengths:
            with FlopCounterMode(display=False) as counter:
                layer(torch.zeros(1, n, knobs.width), None, None)
            counts.append(counter.get_total_flops())
    parabola = np.polynomial.Polynomial(np.linalg.solve(np.vander(lengths, 3, increasing=True), counts))
    at_once, in_blocks = parabola(knobs.tokens), parabola(knobs.block) * knobs.tokens / knobs.block
    return {"times as dear": float(at_once / in_blocks), "TFLOPs of a layer at once": float(at_once / 1e12)}


# Which tokens are predicted better


@dataclass(frozen=True)
class NextTokenKnobs:
    data: str = option("manual", "Data that it is asked of.")
    reach: int = option(8, "Characters that the model of characters looks back.", minimum=1, maximum=20)
    words: int = option(2, "Words that the model of words looks back.", minimum=1, maximum=6)
    characters: int = option(80_000, "Length of the slice; a tenth of it is predicted.", minimum=2000, maximum=10**7)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


FEWEST_CHARACTERS = 5_000


def cut_slice(data: str, length: int, seed: int) -> tuple[str, str]:
    """A slice of the text, nine tenths to learn from, a tenth to predict; another for each seed."""
    import random

    from pellucid.data import open_data
    from pellucid.data.kinds import ListData, TextData, require_kind

    opened = open_data(data)
    require_kind(opened, "text", "list")
    assert isinstance(opened, TextData | ListData)
    text = opened.read() if isinstance(opened, TextData) else "\n".join(opened.items)
    if len(text) < FEWEST_CHARACTERS:
        raise PellucidError(f"{opened.name} has {len(text):,} characters", fix=f"Give it {FEWEST_CHARACTERS:,} or more")
    start = random.Random(seed).randrange(max(1, len(text) - length + 1))
    piece = text[start : start + length]
    return piece[: 9 * len(piece) // 10], piece[9 * len(piece) // 10 :]


@functools.cache
def measure_next_tokens(knobs: NextTokenKnobs) -> Numbers:
    """Kneser-Ney n-grams of characters and of words: how often the likeliest token is right, and the whole word."""
    import numpy as np

    from pellucid.data.prepare.tokens import Corpus
    from pellucid.data.vocabularies import Characters, Words
    from pellucid.models.counting.ngram import NGram, NGramConfig

    train, test = cut_slice(knobs.data, knobs.characters, knobs.seed)
    letters = Characters(sorted(set(train + test)), has_boundary=False)
    words = Words.of([train, test], has_boundary=False)

    def fit(vocabulary: Characters | Words, order: int) -> NGram:
        tokens = np.array(vocabulary.encode(train), dtype=np.int64)
        return NGram.fit(Corpus(tokens, has_boundary=False), NGramConfig(len(vocabulary), order))

    by_letters, by_words = fit(letters, knobs.reach + 1), fit(words, knobs.words + 1)

    def accuracy(model: NGram, vocabulary: Characters | Words) -> float:
        tokens = np.array(vocabulary.encode(test)[:4000], dtype=np.int64)
        return float((model.after_each(tokens[:-1]).argmax(-1) == tokens[1:]).mean())

    cut = list(words.cut(test))
    starts = np.cumsum([0, *[len(word) for word in cut]])
    asked = [at for at in range(10, len(cut)) if cut[at].strip().isalpha()][:400]
    found = by_words.log_probabilities(
        np.array([words.encode(test[: starts[at]])[-knobs.words :] for at in asked], dtype=np.int64)
    )
    right_words = [words.tokens[best] == cut[at] for best, at in zip(found.argmax(-1).tolist(), asked, strict=True)]
    longest = 1 + max([len(cut[at]) for at in asked])
    contexts = np.array([letters.encode(test[starts[at] - knobs.reach : starts[at]]) for at in asked], dtype=np.int64)
    for _ in range(longest):
        following = by_letters.log_probabilities(contexts).argmax(-1)
        contexts = np.concatenate([contexts, following[:, None]], axis=1)
    spelled = [letters.decode(row) for row in contexts[:, knobs.reach :].tolist()]
    right_spelled = [next(iter(words.cut(text))) == cut[at] for text, at in zip(spelled, asked, strict=True)]
    return {
        "next character right": accuracy(by_letters, letters),
        "next word right": accuracy(by_words, words),
        "word right at once": float(np.mean(right_words)),
        "word right by characters": float(np.mean(right_spelled)),
    }


# Contexts


@dataclass(frozen=True)
class IndexKnobs:
    vocabulary: str = option("abd ", "Characters in the order of their numbers; the space stands for the separator.")

    def __post_init__(self) -> None:
        check_options(self)


def number_letters(knobs: IndexKnobs) -> Numbers:
    """The indices of the letters of a short text."""
    from pellucid.data.vocabularies import Characters

    tokens = Characters(list(knobs.vocabulary), has_boundary=False).encode("bad dab")
    return {f"token {at}": float(token) for at, token in enumerate(tokens, start=1)}


@dataclass(frozen=True)
class ContextSizeKnobs:
    tokens: int = option(7, "Tokens of the sequence.", minimum=2, maximum=64)
    model: str = option("transformer", "Network that reads it", choices=("transformer", "mlp"))

    def __post_init__(self) -> None:
        check_options(self)


def measure_context_sizes(knobs: ContextSizeKnobs) -> Numbers:
    """Which tokens each prediction depends on, by gradients through the network: how many, for each target."""
    import torch

    from pellucid.models.sequences.configs import TransformerConfig, WindowMLPConfig
    from pellucid.models.sequences.transformer import Transformer
    from pellucid.models.sequences.windows import WindowMLP
    from pellucid.training.rng import seed_torch

    with seed_torch(0, 0, "weights"):
        network: Transformer | WindowMLP
        if knobs.model == "transformer":
            network = Transformer(TransformerConfig(4, 64, width=16, depth=2, n_heads=2))
        else:
            network = WindowMLP(WindowMLPConfig(4, context=3))
        for parameter in network.parameters():  # some begin at 0, through which nothing is seen
            torch.nn.init.normal_(parameter, std=0.3)
    embedded: list[Tensor] = []
    handle = network.embedding.register_forward_hook(lambda module, given, out: embedded.append(out))
    tokens = torch.tensor([(BAD_DAB * 10)[: knobs.tokens - 1]])
    logits = network(tokens)
    handle.remove()
    sizes = []
    for at in range(knobs.tokens - 1):
        (slope,) = torch.autograd.grad(logits[0, at, 0], embedded[0], retain_graph=True)
        reads = slope.abs().sum(-1).flatten()[-(knobs.tokens - 1) :] if slope.dim() == 3 else slope[0, at].abs().sum(-1)
        sizes.append(float((reads > 0).sum()))
    return {
        "targets": float(len(sizes)),
        "shortest": min(sizes),
        "longest": max(sizes),
        "sizes": float(len(set(sizes))),
    }


@dataclass(frozen=True)
class BlockKnobs:
    data: str = option("manual", "Data that it is asked of.")
    loss_on: str = option("all", "Positions of a block that are trained on", choices=("all", "last"))
    read: str = option(
        "window", "What is read of a longer text: its last block, or all of it", choices=("window", "all")
    )
    positions: str = option("learned", "Position encoding", choices=("learned", "rotary", "alibi"))
    steps: int = option(300, "Steps of 32 blocks of 16 characters.", minimum=10, maximum=10_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@functools.cache
def train_on_blocks(data: str, loss_on: str, positions: str, steps: int, seed: int) -> Any:
    """A small transformer of characters, the tokens that are held out, and how often each occurs in train."""
    import torch

    from pellucid.data.vocabularies import Characters
    from pellucid.models.sequences.configs import TransformerConfig
    from pellucid.models.sequences.transformer import Transformer
    from pellucid.training.loop import mean_token_loss
    from pellucid.training.rng import seed_torch, torch_rng

    train_text, test_text = cut_slice(data, 80_000, seed)
    vocabulary = Characters(sorted(set(train_text + test_text)), has_boundary=False)
    train, test = (torch.tensor(vocabulary.encode(text)) for text in (train_text, test_text))
    config = TransformerConfig(len(vocabulary), LONGER, width=32, depth=1, n_heads=2, positions=positions)
    with seed_torch(seed, 0, "weights"):
        model = Transformer(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    rng = torch_rng(seed, 0, "batches")
    asked = slice(None) if loss_on == "all" else slice(BLOCK - 1, BLOCK)
    for _ in range(steps):
        starts = torch.randint(len(train) - BLOCK, (32,), generator=rng)
        rows = train[starts[:, None] + torch.arange(BLOCK + 1)]
        optimizer.zero_grad()
        loss = mean_token_loss(model(rows[:, :-1])[:, asked], rows[:, 1:][:, asked])
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        optimizer.step()
    return model.eval(), test, torch.bincount(train, minlength=len(vocabulary))


def measure_blocks(knobs: BlockKnobs) -> Numbers:
    """Nats a character on held-out text: after one token, inside the block, and where the text is longer than it."""
    import torch
    from torch.nn.functional import cross_entropy

    model, test, counts = train_on_blocks(knobs.data, knobs.loss_on, knobs.positions, knobs.steps, knobs.seed)
    starts = torch.arange(0, len(test) - LONGER - 1, max(1, (len(test) - LONGER - 1) // 300))
    rows = test[starts[:, None] + torch.arange(LONGER + 1)]

    def loss(logits: Tensor, targets: Tensor) -> float:
        return float(cross_entropy(logits.flatten(0, -2), targets.flatten()))

    with torch.no_grad():
        inside = model(rows[:, :BLOCK])
        if knobs.read == "all":
            beyond = model(rows[:, :LONGER])[:, BLOCK:]
        else:
            windows = rows.unfold(1, BLOCK, 1)[:, 1:-1]  # each ends one token further
            beyond = model(windows.reshape(-1, BLOCK))[:, -1].reshape(len(rows), LONGER - BLOCK, -1)
        frequencies = ((counts + 1) / (counts + 1).sum()).log().expand(len(rows), -1)
        return {
            "after one token": loss(inside[:, 0], rows[:, 1]),
            "by frequency alone": loss(frequencies, rows[:, 1]),
            "at the end of a block": loss(inside[:, BLOCK // 2 :], rows[:, BLOCK // 2 + 1 : BLOCK + 1]),
            "beyond it": loss(beyond, rows[:, BLOCK + 1 :]),
        }


def measure_first_tokens(knobs: BlockKnobs) -> Numbers:
    """The same beside a transformer that only ever predicted at the end of a block."""
    full_only = measure_blocks(replace(knobs, loss_on="last"))
    return {**measure_blocks(knobs), "after one, trained on full blocks": full_only["after one token"]}


LOG, NOTES = "log Q12", "notes Part V"

FAMILY = ClaimFamily(
    name="tokenisers",
    title="Tokenisers and contexts",
    picture="token-costs",
    claims=(
        Claim(
            id="char-119-word-20-tokens",
            says="twenty words of five letters are 119 tokens by characters, spaces included, and 20 by words",
            where=LOG,
            kind="arithmetic",
            measure=count_tokens,
            decides="characters",
            margin=lambda seen: 0.5 - max(abs(seen["characters"] - 119), abs(seen["words"] - 20)),
            rule="our tokenisers count 119 and 20",
            knobs=SentenceKnobs,
            control={"letters": 6},
            second=lambda knobs: {
                "characters": float(knobs.words * knobs.letters + knobs.words - 1),
                "words": float(knobs.words),
            },
        ),
        Claim(
            id="char-35x-dearer",
            stated="35 to 36 times",
            says="reading that sentence as characters costs a transformer 35 to 36 times as much as reading words",
            where=LOG,
            kind="cost",
            measure=measure_costs,
            decides="times as dear",
            margin=lambda seen: 0.5 - abs(seen["times as dear"] - 35.5),
            rule="all FLOPs of a transformer of width 512 are between 35 and 36 times as many",
            knobs=SentenceKnobs,
            control={"counted": "attention"},
            second=count_costs_by_torch,
            other_reading="of the scores of attention and what they mix it is true: that is the control",
        ),
        Claim(
            id="france-six-paris-five",
            says="France is six tokens by characters, and Paris five",
            where=LOG,
            kind="arithmetic",
            measure=count_letters,
            decides="France",
            margin=lambda seen: 0.5 - max(abs(seen["France"] - 6), abs(seen["Paris"] - 5)),
            rule="our tokeniser makes six and five of them",
            knobs=LetterKnobs,
            control={"tokens": "words"},
            second=lambda knobs: {"France": 6.0, "Paris": 5.0} if knobs.tokens != "words" else {},
        ),
        Claim(
            id="word-level-next-token-better",
            says="a model of words is right about its next token more often than a model of characters",
            where=LOG,
            kind="training",
            measure=measure_next_tokens,
            decides="next word right",
            margin=lambda seen: seen["next word right"] - seen["next character right"],
            rule="the likeliest word of a trigram is right more often than the likeliest character of a 9-gram",
            knobs=NextTokenKnobs,
            control={"reach": 1, "words": 3},
            seeds=5,
        ),
        Claim(
            id="whole-word-by-chars-harder",
            says="spelling the next word letter by letter is right less often than naming it at once",
            where=LOG,
            kind="training",
            measure=measure_next_tokens,
            decides="word right by characters",
            margin=lambda seen: seen["word right at once"] - seen["word right by characters"] - 0.01,
            rule="characters, each the likeliest, spell the next word a point less often than the likeliest word is it",
            knobs=NextTokenKnobs,
            control={"reach": 1},
            search=Search("reach", 1, 16),
            seeds=5,
        ),
        Claim(
            id="bad-dab-tokens",
            says="with the vocabulary a, b, d and a separator, bad dab is 1 0 2 3 2 0 1",
            where=NOTES,
            kind="arithmetic",
            measure=number_letters,
            decides="token 1",
            margin=lambda seen: yes(tuple(seen.values()) == BAD_DAB),
            rule="our tokeniser gives these seven numbers",
            knobs=IndexKnobs,
            control={"vocabulary": " abd"},
            second=lambda knobs: {
                f"token {at}": float(knobs.vocabulary.index(letter)) for at, letter in enumerate("bad dab", start=1)
            },
        ),
        Claim(
            id="one-sequence-six-contexts",
            says="seven tokens hold contexts of every size from one to six",
            where=NOTES,
            kind="proof",
            measure=measure_context_sizes,
            decides="sizes",
            margin=lambda seen: yes(
                (seen["shortest"], seen["longest"], seen["sizes"], seen["targets"]) == (1.0, 6.0, 6.0, 6.0)
            ),
            rule="by gradients through a transformer its six predictions read one, two, ... and six tokens",
            knobs=ContextSizeKnobs,
            control={"model": "mlp"},
            second=lambda knobs: (
                {"targets": knobs.tokens - 1.0, "longest": min(knobs.tokens - 1.0, 3.0)}
                if knobs.model == "mlp"
                else {"targets": knobs.tokens - 1.0, "longest": knobs.tokens - 1.0}
            ),
        ),
        Claim(
            id="all-context-sizes-trained",
            says="since contexts of all sizes are trained on, a transformer can go on from a single token",
            where=NOTES,
            kind="training",
            measure=measure_first_tokens,
            decides="after one token",
            margin=lambda seen: (
                min(seen["by frequency alone"], seen["after one, trained on full blocks"])
                - seen["after one token"]
                - 0.1
            ),
            rule="after one token its loss is 0.1 nats or more below letter frequencies, and below a transformer that "
            "was trained on full contexts alone",
            changed="ten seeds in place of five, which left it open",
            knobs=BlockKnobs,
            control={"loss_on": "last"},
            seeds=10,
        ),
        Claim(
            id="cannot-exceed-block-size",
            says="a transformer that was trained on blocks cannot predict in texts that are longer",
            where=NOTES,
            kind="training",
            measure=measure_blocks,
            decides="beyond it",
            margin=lambda seen: seen["beyond it"] - seen["at the end of a block"] - 0.1,
            rule="reading the last block of a longer text, its loss is 0.1 nats or more above that inside a block",
            knobs=BlockKnobs,
            control={"read": "all"},
            seeds=5,
            other_reading="all of a longer text at once, with learned positions, it cannot: that is the control",
        ),
        Claim(
            id="long-context-expensive",
            says="reading a whole text at once costs too much, so a context is fixed",
            where=NOTES,
            kind="cost",
            measure=measure_whole_text,
            decides="times as dear",
            margin=lambda seen: math.log10(seen["times as dear"]) - 1,
            rule="at once it costs ten times as many FLOPs as in blocks of 256, or more",
            knobs=WholeTextKnobs,
            control={"tokens": 1_000},
            search=Search("tokens", 256, 1e8, is_log=True),
            second=extrapolate_by_torch,
        ),
    ),
)
