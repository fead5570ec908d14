"""A model that goes on from a prompt and judges a text, whether it was trained or only counts: samples and scores.

A trained network computes in double precision, which makes what is drawn a function of the weights, the prompt and the
seed: the same alone or beside others, cached or not, whatever the threads. Samples are drawn in single precision where
that is faster and their tokens are the same (single_precision.py). Torch is loaded when the network is first asked, so
that a mistake in the prompt is answered at once.
"""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pellucid.data import Vocabulary
from pellucid.data.hf_vocabulary import HFVocabulary
from pellucid.decoding.options import USUAL_LENGTH, SampleOptions, require_top_k_fits
from pellucid.errors import PellucidError, TooLarge, quoted
from pellucid.models.catalogue import find_network
from pellucid.records import (
    Evaluation,
    MeanLoss,
    ModelFacts,
    Rung,
    Sample,
    Samples,
    ScoredText,
    Statement,
    Surprise,
    TrainedFacts,
    make_note,
)
from pellucid.runs import Run
from pellucid.training.run_data import MOST_SEARCHED, KnownData, load_known_data, load_vocabulary

if TYPE_CHECKING:
    import numpy.typing as npt

    from pellucid.data import ListData, TextData
    from pellucid.decoding.continuous import JoinableReading
    from pellucid.decoding.sampling import Drawn, FloatArray, Reading
    from pellucid.models.contracts import SequenceModel
    from pellucid.models.counting.count_model import CountModel
    from pellucid.models.counting.fitting import FittedCounts

Track = Callable[[Sequence["Drawn"]], Iterable["Drawn"]]
TokenLogs = tuple[float | None, tuple[tuple[int, float], ...]]

FEW = 10  # samples of a list, unless another number is asked for
LONGEST_ITEM = 1_000  # tokens; a list's sample without an end is cut here
LONGEST_PROMPT = 1_000  # tokens, where the model itself has no limit
MOST_SCORED = 20_000  # tokens; each is a row of the table
KEPT_TOKENS = 20_000  # samples of more have so many keys and values that their memory is given back
SHOWN = 20  # tokens of a context that are shown


class LanguageModel(ABC):
    """What samples and scores need of a model."""

    vocabulary: Vocabulary
    notes: tuple[Statement, ...] = ()  # on its data

    @property
    def is_list(self) -> bool:
        return self.vocabulary.has_boundary

    @property
    def ends(self) -> int | None:
        """The token with which a text ends by itself, where a model that others made has one."""
        endings = self.vocabulary.endings if isinstance(self.vocabulary, HFVocabulary) else ()
        return endings[0] if endings else None

    @property
    @abstractmethod
    def facts(self) -> ModelFacts | TrainedFacts: ...

    @property
    @abstractmethod
    def known(self) -> KnownData: ...

    @property
    @abstractmethod
    def longest_prompt(self) -> int:
        """How many tokens of a prompt can be read; of a longer one the last are."""

    @abstractmethod
    def reading(self, *, is_cached: bool = True) -> Reading:
        """The model as decoding goes on with it."""

    @contextlib.contextmanager
    def sampling_reading(self, n_tokens: int) -> Iterator[Reading]:
        """The same to draw samples with, of at most so many tokens together: perhaps an `UnsureReading`."""
        yield self.reading()

    @abstractmethod
    def joinable_reading(self) -> JoinableReading:
        """The model as continuous batching goes on with it."""

    def joinable_sampling_reading(self) -> JoinableReading | None:
        """The same as an `UnsureReading`, where that is faster."""
        return None

    @abstractmethod
    def start(self, prompt: Sequence[int]) -> list[int]:
        """What is read before the first token is drawn."""

    @abstractmethod
    def log_rows(self, tokens: Sequence[int]) -> FloatArray:
        """tokens: at least one -> (tokens, vocab), the log-probabilities of what comes after each of them."""

    def token_logs(self, prompt: Sequence[int], n_likeliest: int) -> list[TokenLogs]:
        """Of each token of a prompt its log-probability, and the likeliest tokens in its place with theirs.

        The first of a text stands after nothing, and has none.
        """
        import numpy as np

        begun = self.start(prompt)
        n_known = len(begun) - len(prompt)  # 1 where something is read before the first, else 0
        found: list[TokenLogs] = [] if n_known else [(None, ())]
        for row, token in zip(self.log_rows(begun), begun[1:], strict=False):
            order = np.argsort(-row, kind="stable")[:n_likeliest]
            likeliest = tuple(zip(order.tolist(), row[order].tolist(), strict=True))
            found.append((float(row[token]), likeliest))
        return found

    @abstractmethod
    def surprises(self, tokens: Sequence[int]) -> tuple[Surprise, ...]:
        """How unexpected each token was after those before it; of a list with the boundary that closes the item."""


class TrainedModel(LanguageModel):
    """The best network of a run of lists or texts."""

    def __init__(self, run: Run) -> None:
        if run.kind not in ("list", "text"):
            raise PellucidError(
                f"the network of {quoted(run.name)} reads {'tables' if run.kind == 'table' else run.kind}, and only "
                "answers",
                fix=f"Try pellucid predict {run.name} FILE",
            )
        find_network(run.model, run.kind)
        self.run = run
        self.vocabulary = load_vocabulary(run)
        self._kept_readings: list[Reading] = []  # nobody draws with them now

    @cached_property
    def _loaded(self) -> tuple[SequenceModel, int]:
        from pellucid.models.contracts import SequenceModel
        from pellucid.training.checkpoints import load_network

        model, step = load_network(self.run)
        assert isinstance(model, SequenceModel)
        return model.double().for_inference(), step

    @property
    def model(self) -> SequenceModel:
        return self._loaded[0]

    @cached_property
    def facts(self) -> TrainedFacts:
        run, (model, step) = self.run, self._loaded
        n_train, n_dev = run.data.n_tokens["train"], run.data.n_tokens["dev"]
        rungs = run.result.ladder.rungs if run.is_finished else ()
        counted = [rung for rung in rungs if rung.is_counted]
        # Evaluations may be of a part of dev, so of a finished run its place on the ladder is asked.
        measured: Rung | Evaluation | None = next((rung for rung in rungs if not rung.is_counted), None)
        measured = measured or next((one for one in run.evaluations if one.step == step), None)
        return TrainedFacts(
            name=run.model,
            run=run.name,
            source=run.data.description,
            vocab_size=len(self.vocabulary),
            parameters=model.n_parameters,
            step=step,
            n_train=n_train,
            n_dev=n_dev,
            train=MeanLoss(measured.train, n_train) if measured else None,
            dev=MeanLoss(measured.dev, n_dev) if measured else None,
            baselines=tuple((rung.name, rung.dev) for rung in sorted(counted, key=lambda rung: -rung.dev)),
            is_finished=run.is_finished,
        )

    @cached_property
    def known(self) -> KnownData:
        return load_known_data(self.run, self.vocabulary)

    @property
    def longest_prompt(self) -> int:
        from pellucid.models.contracts import ANY_LENGTH

        limit = self.model.longest if self.model.longest < ANY_LENGTH else LONGEST_PROMPT
        return max(1, limit - self.is_list)

    @property
    def opening(self) -> int:
        """The token that stands before the first: of a list the boundary, of a text a line break.

        A text without line breaks begins after a space, and one without either after its first symbol.
        """
        if self.is_list:
            return 0
        if isinstance(self.vocabulary, HFVocabulary) and self.vocabulary.opening is not None:
            return self.vocabulary.opening
        tokens = self.vocabulary.tokens
        marks = ("\n", "<0A>", " ")  # as characters and words have it, as bytes do
        return next((tokens.index(mark) for mark in marks if mark in tokens), 0)

    def reading(self, *, is_cached: bool = True) -> Reading:
        from pellucid.models.stepwise import ForwardReading, NeuralReading

        return NeuralReading(self.model) if is_cached else ForwardReading(self.model)

    @contextlib.contextmanager
    def sampling_reading(self, n_tokens: int) -> Iterator[Reading]:
        """It is kept for the next samples, unless it holds much: to lay out weights and to get memory takes a sixth."""
        from pellucid.training.inference.single_precision import SingleReading, can_read_in_single

        if self._kept_readings:
            reading = self._kept_readings.pop()
        else:
            reading = SingleReading(self.model) if can_read_in_single(self.model) else self.reading()
        yield reading
        if n_tokens <= KEPT_TOKENS:
            self._kept_readings.append(reading)

    def joinable_reading(self) -> JoinableReading:
        from pellucid.models.stepwise import JoinableNeuralReading

        return JoinableNeuralReading(self.model)

    def joinable_sampling_reading(self) -> JoinableReading | None:
        from pellucid.training.inference.single_precision import JoinableSingleReading, can_read_in_single

        return JoinableSingleReading(self.model) if can_read_in_single(self.model) else None

    def log_rows(self, tokens: Sequence[int]) -> FloatArray:
        import numpy as np

        from pellucid.decoding.sampling import log_softmax
        from pellucid.models.stepwise import scores_after_each

        return log_softmax(scores_after_each(self.model, np.array(tokens)))

    def start(self, prompt: Sequence[int]) -> list[int]:
        """A list's items begin at the boundary; a text goes on from its prompt, and without one from a line break."""
        last = list(prompt)[-self.longest_prompt :]
        return [self.opening, *last] if self.is_list or not last else last

    def surprises(self, tokens: Sequence[int]) -> tuple[Surprise, ...]:
        import numpy as np

        from pellucid.decoding.sampling import log_softmax
        from pellucid.models.sequences.on_counting import OnCounting
        from pellucid.models.stepwise import parts_after_each

        scored = [*tokens, self.vocabulary.closing] if self.is_list else list(tokens)
        read = [self.opening, *scored]
        contexts = ["…" * (end > SHOWN) + self._names(read[max(0, end - SHOWN) : end]) for end in range(1, len(read))]
        if not isinstance(self.model, OnCounting):
            return _surprises(contexts, scored, self.log_rows(read[:-1]), self.vocabulary.tokens)
        scores, counted, gates = parts_after_each(self.model, np.array(read[:-1]))
        plain = _surprises(contexts, scored, log_softmax(scores), self.vocabulary.tokens)
        parts = zip(plain, scored, counted, gates, strict=True)
        return tuple(
            one._replace(counted=float(np.exp(logs[token])), gate=float(gate)) for one, token, logs, gate in parts
        )

    def _names(self, tokens: Sequence[int]) -> str:
        return "".join(self.vocabulary.tokens[token] for token in tokens)


class CountedModel(LanguageModel):
    """A model that counts the train side of data."""

    longest_prompt = LONGEST_PROMPT

    def __init__(self, fitted: FittedCounts, data: ListData | TextData) -> None:
        self.fitted = fitted
        self.vocabulary = fitted.vocabulary
        self.notes = data.notes

    @cached_property
    def model(self) -> CountModel:
        return self.fitted.model

    @cached_property
    def facts(self) -> ModelFacts:
        return self.fitted.facts

    @cached_property
    def known(self) -> KnownData:
        from pellucid.decoding.novelty import Known

        sides = self.fitted.sides
        if self.is_list:
            return KnownData(Known(sides.train_items, sides.dev_items))
        tokens = sides.train.tokens
        return KnownData(text=self.vocabulary.decode(tokens.tolist()) if len(tokens) <= MOST_SEARCHED else "")

    def reading(self, *, is_cached: bool = True) -> Reading:
        from pellucid.decoding.sampling import FromContexts

        return FromContexts(self.model.log_probabilities)

    def joinable_reading(self) -> JoinableReading:
        from pellucid.models.counting.count_model import JoinableCounts

        return JoinableCounts(self.model)

    def log_rows(self, tokens: Sequence[int]) -> FloatArray:
        import numpy as np

        return self.model.after_each(np.array(tokens))

    def start(self, prompt: Sequence[int]) -> list[int]:
        return [0, *prompt] if self.is_list else list(prompt)

    def surprises(self, tokens: Sequence[int]) -> tuple[Surprise, ...]:
        import numpy as np

        model, names = self.model, self.vocabulary.tokens
        scored = [*tokens, self.vocabulary.closing] if self.is_list else list(tokens)
        begun = [0, *scored] if model.has_boundary else scored
        rows = model.after_each(np.array(begun))[:-1]
        if not model.has_boundary:
            rows = np.concatenate([model.log_probabilities(np.zeros((1, 0), np.int64)), rows])
        first = int(model.has_boundary)
        contexts = [
            "".join(names[token] for token in begun[max(0, end - model.reach) : end])
            for end in range(first, first + len(scored))
        ]
        return _surprises(contexts, scored, rows, names)


class CountedRun(CountedModel):
    """The model of a run that only counts, as its folder has it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.vocabulary = load_vocabulary(run)
        self.notes = ()

    @cached_property
    def model(self) -> CountModel:
        from pellucid.training.counted_run import load_count_model

        return load_count_model(self.run)

    @cached_property
    def facts(self) -> ModelFacts:
        report = self.run.report()
        own, n_tokens = report.rung, report.data.n_tokens
        return ModelFacts(
            name=f"{own.name} of the run {report.name}",
            source=report.data.description,
            vocab_size=len(self.vocabulary),
            n_train=n_tokens["train"],
            n_dev=n_tokens["dev"],
            n_entries=self.model.n_entries,
            n_stored=own.parameters,
            train=MeanLoss(own.train, n_tokens["train"]),
            dev=MeanLoss(own.dev, n_tokens["dev"]),
            baselines=tuple((rung.name, rung.dev) for rung in reversed(report.ladder.rungs) if rung.name != own.name),
        )

    @cached_property
    def known(self) -> KnownData:
        return load_known_data(self.run, self.vocabulary)


def draw_samples(model: LanguageModel, options: SampleOptions, track: Track = list) -> Samples:
    """Samples, each with how new it is: drawn by chance, or found by a beam.

    track: given all that was drawn; they are compared with the data as they come out of it, for a progress bar.
    """
    if model.is_list and options.length is not None:
        raise PellucidError(
            "{length} changes nothing for a list, whose items end by themselves",
            fix="Leave it out",
            options={"length": None},
        )
    if options.no_cache and isinstance(model, CountedModel):
        raise PellucidError(
            "{no_cache} changes nothing for a model that counts", fix="Leave it out", options={"no_cache": None}
        )
    if "top_k" in options.filters:
        require_top_k_fits(int(options.filters["top_k"]), len(model.vocabulary))
    prompt, notes = encode_known(options.prompt, model.vocabulary, options.unknown, "the prompt")
    if len(prompt) > model.longest_prompt:
        notes = (*notes, make_note("prompt-cut", n=len(prompt), n_used=model.longest_prompt))
    n_samples = options.count or (FEW if model.is_list else 1)
    if options.temperature == 0 and options.beam is None and n_samples > 1:
        n_samples = 1
        notes = (*notes, make_note("one-sample"))
    samples = _draw(model, options, prompt, n_samples, track)
    if model.is_list and any(sample.is_cut for sample in samples):
        notes = (*notes, make_note("samples-cut", n=LONGEST_ITEM))
    return Samples(
        model.facts,
        options.prompt,
        options.temperature,
        options.seed,
        samples,
        (*model.notes, *notes, *model.known.notes),
        options.filters,
        options.beam or 0,
        options.length_penalty,
    )


def _draw(
    model: LanguageModel, options: SampleOptions, prompt: list[int], n_samples: int, track: Track
) -> tuple[Sample, ...]:
    from pellucid.decoding.beam import beam_search
    from pellucid.decoding.novelty import describe_items, describe_texts
    from pellucid.decoding.sampling import NEVER, ImpreciseScores, allows_unsure, draw_tokens

    start = model.start(prompt[-model.longest_prompt :])
    longest = LONGEST_ITEM if model.is_list else options.length or USUAL_LENGTH
    stop = model.vocabulary.closing if model.is_list else NEVER if model.ends is None else model.ends
    if options.beam is not None:
        found = beam_search(
            model.reading(is_cached=not options.no_cache),
            width=options.beam,
            longest=longest,
            start=start,
            stop=stop,
            length_penalty=options.length_penalty,
        )
        drawn = [hypothesis.drawn for hypothesis in found][:n_samples]
    else:

        def draw(reading: Reading) -> list[Drawn]:
            return draw_tokens(
                reading,
                n_samples=n_samples,
                longest=longest,
                start=start,
                stop=stop,
                seed=options.seed,
                temperature=options.temperature,
                **options.filters,
            )

        if options.no_cache or not allows_unsure(options.temperature, options.filters):
            drawn = draw(model.reading(is_cached=not options.no_cache))
        else:
            try:
                with model.sampling_reading(n_samples * longest) as reading:
                    drawn = draw(reading)
            except ImpreciseScores:
                drawn = draw(model.reading())
    decode = model.vocabulary.decode
    if model.is_list:
        return tuple(describe_items(track(drawn), decode, prompt, model.known.items))
    return tuple(describe_texts(track(drawn), decode, prompt, model.known.text))


def score_text(model: LanguageModel, text: str, unknown: str = "error") -> ScoredText:
    """The surprise of every token of a text; of a list's item, with the boundary that closes it."""
    tokens, notes = encode_known(text, model.vocabulary, unknown, "the text")
    if not tokens:
        raise PellucidError("nothing of the text is left to score", fix="Use letters that the data have")
    if len(tokens) > MOST_SCORED:
        raise TooLarge(
            f"the text has {len(tokens):,} tokens, past the limit of {MOST_SCORED:,}", fix="Score a part of it"
        )
    surprises = model.surprises(tokens)
    n_impossible = sum(surprise.nats == math.inf for surprise in surprises)
    if n_impossible:
        notes = (*notes, make_note("loss-infinite", n=n_impossible))
    known = model.known if model.is_list else KnownData()
    where = known.items.where(text) if known.items else ""
    return ScoredText(text, model.facts, surprises, where, (*model.notes, *notes, *known.notes))


def encode_known(text: str, vocabulary: Vocabulary, unknown: str, noun: str) -> tuple[list[int], tuple[Statement, ...]]:
    """The tokens of a text, and a note on what was skipped; unless told to skip, what is unknown is named."""
    if vocabulary.kind == "characters":
        known = set(vocabulary.symbols)
        strange = [(place, letter) for place, letter in enumerate(text, start=1) if letter not in known]
        if strange and unknown == "error":
            shown = ", ".join(f"{quoted(letter)} (character {place})" for place, letter in strange[:3])
            more = f" and {len(strange) - 3:,} more" if len(strange) > 3 else ""
            never = "were" if len(strange) > 1 else "was"
            raise PellucidError(
                f"{shown}{more} of {noun} {never} never seen in the data",
                fix="Use {unknown} to leave out what is unknown",
                options={"unknown": "skip"},
            )
        if strange:
            letters = list(dict.fromkeys(letter for _, letter in strange[:10]))
            return vocabulary.encode(text, unknown), (make_note("letters-left-out", noun=noun, letters=letters),)
    return vocabulary.encode(text, unknown), ()


def _surprises(
    contexts: Sequence[str], scored: Sequence[int], rows: npt.NDArray[Any], names: Sequence[str]
) -> tuple[Surprise, ...]:
    """rows: (tokens, vocab), the log-probabilities before each token."""
    import numpy as np

    return tuple(
        Surprise(
            context=context,
            token=names[token],
            probability=float(np.exp(row[token])),
            nats=-float(row[token]) + 0.0,
            rank=int((row > row[token]).sum()) + 1,
            expected=names[int(row.argmax())],
        )
        for context, token, row in zip(contexts, scored, rows, strict=True)
    )
