"""A trained network, ready to speak and to judge.

It computes in double precision. That costs little where single tokens are read, and makes what is drawn a function of
the weights, the prompt and the seed: the same alone or beside others, cached or not, on one thread or on two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pellucid import runs
from pellucid.decoding.distributions import log_softmax
from pellucid.decoding.limits import ALL, require_top_k
from pellucid.decoding.samples import items_of, texts_of
from pellucid.decoding.sampling import NEVER, Drawn, draw
from pellucid.errors import PellucidError
from pellucid.models.catalogue import find_network
from pellucid.models.contracts import ANY_LENGTH, SequenceModel
from pellucid.models.reading import ForwardReading, NeuralReading, scores_after_each
from pellucid.records import Loss, Sample, ScoredText, Surprise, TrainedFacts
from pellucid.training.stored import StoredRun, stored_run
from pellucid.training.weights import load_best, require_matching_weights

LONGEST_ITEM = 1_000  # tokens; a list's sample without an end is cut here
LONGEST_PROMPT = 1_000  # tokens, where the network itself has no limit
LENGTH_OF_TEXT = 300
SHOWN = 20  # tokens of a context that are shown


@dataclass(frozen=True)
class Trained:
    """The best network of a run with its vocabulary and its data."""

    stored: StoredRun
    model: SequenceModel
    facts: TrainedFacts

    def sample(
        self,
        n: int = 10,
        *,
        prompt: str = "",
        unknown: str = "error",
        seed: int = 0,
        temperature: float = 1.0,
        top_k: int = ALL,
        top_p: float = 1.0,
        length: int = LENGTH_OF_TEXT,
    ) -> tuple[Sample, ...]:
        """Draw n samples and say how new each is; one of running text is `length` tokens long."""
        require_top_k(top_k, self.model.vocab_size)
        tokens = self.stored.vocabulary.encode(prompt, unknown)
        drawn = draw(
            self.reading(),
            n_samples=n,
            longest=LONGEST_ITEM if self.stored.is_list else length,
            start=self.start(tokens),
            stop=0 if self.stored.is_list else NEVER,
            seed=seed,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
        )
        return self.as_samples(drawn, tokens)

    def score(self, text: str, *, unknown: str = "error") -> ScoredText:
        """The surprise of every token of a text; of a list's item, with the boundary that closes it."""
        seen = self.stored.seen
        where = seen.items.where(text) if seen.items else ""
        notes = (seen.note,) if seen.note and self.stored.is_list else ()
        return ScoredText(text, self.facts, self.surprises(self.stored.vocabulary.encode(text, unknown)), where, notes)

    def reading(self, *, is_cached: bool = True) -> NeuralReading | ForwardReading:
        """The network as decoding goes on with it."""
        return NeuralReading(self.model) if is_cached else ForwardReading(self.model)

    @property
    def longest_prompt(self) -> int:
        """How many tokens of a prompt can be read; of a longer one the last are."""
        limit = self.model.longest if self.model.longest < ANY_LENGTH else LONGEST_PROMPT
        return max(1, limit - self.stored.is_list)

    def start(self, prompt: Sequence[int]) -> list[int]:
        """A list's items begin at the boundary; a text goes on from its prompt, and without one from a line break."""
        last = list(prompt)[-self.longest_prompt :]
        return [self.stored.opening, *last] if self.stored.is_list or not last else last

    def as_samples(self, drawn: Iterable[Drawn], prompt: Sequence[int]) -> tuple[Sample, ...]:
        """What was drawn as text, compared with the data of the run."""
        decode, seen = self.stored.vocabulary.decode, self.stored.seen
        if self.stored.is_list:
            return tuple(items_of(drawn, decode, prompt, seen.items))
        return tuple(texts_of(drawn, decode, prompt, seen.text))

    def surprises(self, tokens: Sequence[int]) -> tuple[Surprise, ...]:
        """How unexpected each token was after those before it."""
        if not tokens:
            raise PellucidError("there is nothing to score", fix="Give a text, such as emma")
        names = self.stored.vocabulary.tokens
        scored = [*tokens, 0] if self.stored.is_list else list(tokens)
        read = [self.stored.opening, *scored]
        found = []
        for place, row in enumerate(log_softmax(scores_after_each(self.model, np.array(read[:-1])))):
            token, context = scored[place], read[max(0, place + 1 - SHOWN) : place + 1]
            found.append(
                Surprise(
                    context="…" * (place >= SHOWN) + "".join(names[one] for one in context),
                    token=names[token],
                    probability=float(np.exp(row[token])),
                    nats=-float(row[token]) + 0.0,
                    rank=int((row > row[token]).sum()) + 1,
                    expected=names[int(row.argmax())],
                )
            )
        return tuple(found)


def load_trained(path: Path) -> Trained:
    """The best network of a run, from its folder."""
    return awakened(stored_run(path))


def awakened(stored: StoredRun) -> Trained:
    """The network that a run's files describe, with the weights that did best on dev."""
    card = find_network(str(stored.record["model"]), "list")
    model = card.build(card.config_from(stored.record["config"]))
    tensors, step = load_best(stored.path)
    require_matching_weights(model, tensors)
    model.load_state_dict(tensors)
    measured = next((one for one in runs.open_run(stored.path).evaluations if one.step == step), None)
    n_train, n_dev = stored.data.n_tokens["train"], stored.data.n_tokens["dev"]
    facts = TrainedFacts(
        name=card.name,
        run=stored.path.name,
        source=stored.data.said,
        vocab_size=len(stored.vocabulary),
        parameters=model.n_parameters,
        step=step,
        n_train=n_train,
        n_dev=n_dev,
        train=Loss(measured.train, n_train) if measured else None,
        dev=Loss(measured.dev, n_dev) if measured else None,
        baselines=stored.baselines,
        is_finished=runs.is_finished(stored.path),
    )
    return Trained(stored, model.double().for_inference(), facts)
