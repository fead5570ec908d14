"""A model that is asked again and again: the decoding tree, beams, samples with their provenance, surprise.

It stays loaded, and remembers the scores of everything that it has read, so that a slider costs no pass of the network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.decoding.options import FILTERS, SampleOptions, require_beam, require_temperature
from pellucid.errors import PellucidError
from pellucid.models.counting import COUNT_MODELS
from pellucid.records import DecodingTree, Provenance, Samples, ScoredText
from pellucid.runs import open_run
from pellucid.training.inference.language_models import (
    CountedRun,
    LanguageModel,
    TrainedModel,
    draw_samples,
    encode_known,
    score_text,
)

if TYPE_CHECKING:
    from pellucid.decoding.tree import RememberedScores

MOST_LEVELS = 40  # of a tree of running text, which has no end of its own
LONGEST_TREE = 60  # tokens after the prompt, of a list's item
MOST_BEAM = 16  # that can still be looked at
N_BRANCHES = 8
MOST_SHARING = 5
AROUND = 24  # characters before and behind what was copied out of running text


class Speaker:
    """The model of a run of lists or texts, ready to be asked."""

    def __init__(self, run: str | Path) -> None:
        opened = open_run(run)
        self.model: LanguageModel = CountedRun(opened) if opened.model in COUNT_MODELS else TrainedModel(opened)

    @cached_property
    def scores(self) -> RememberedScores:
        """(batch, time) tokens -> scores of the next, each row asked of the model once."""
        from pellucid.decoding.tree import RememberedScores

        return RememberedScores(self.model.reading(is_cached=False).read)

    def tree(
        self,
        prompt: str = "",
        path: Sequence[int] = (),
        *,
        temperature: float = 1.0,
        filters: Mapping[str, float] | None = None,
        seed: int | None = None,
        beam: int = 0,
        length_penalty: float = 0.0,
    ) -> DecodingTree:
        """What follows a prompt, level by level. path: tokens that were chosen by hand; from its end the likeliest
        follow, or with a seed those that are drawn. beam: the width of a search from the same beginning; 0: none.
        """
        from pellucid.decoding.tree import grow_beam, grow_tree

        require_temperature(temperature)
        asked = {one.name: filters[one.name] for one in FILTERS if filters and one.name in filters}
        vocabulary = self.model.vocabulary
        tokens, _ = encode_known(prompt, vocabulary, "error", "the prompt")
        if any(not 0 <= token < len(vocabulary) for token in path):
            raise PellucidError("a token of the path is none of this model's", fix="Begin the path anew")
        start = self.model.start(tokens[-self.model.longest_prompt :])
        longest = LONGEST_TREE if self.model.is_list else MOST_LEVELS
        stop = vocabulary.closing if self.model.is_list else -1
        levels, log = grow_tree(
            self.scores,
            start=start,
            path=list(path)[:longest],
            longest=longest,
            show=self._name,
            stop=stop,
            n_branches=N_BRANCHES,
            seed=seed,
            temperature=temperature,
            **asked,
        )
        chosen = [level.chosen for level in levels if level.chosen != stop]
        tree = DecodingTree(prompt, levels, vocabulary.decode([*tokens, *chosen]), -log)
        if not beam:
            return tree
        require_beam(beam)
        if beam > MOST_BEAM:
            raise PellucidError(f"a beam of {beam} is too wide to be looked at", fix=f"Choose 1 to {MOST_BEAM}")
        found = grow_beam(
            self.scores,
            width=beam,
            start=start,
            longest=longest if self.model.is_list else MOST_LEVELS // 2,
            show=self._name,
            decode=lambda drawn: vocabulary.decode([*tokens, *drawn]),
            stop=stop,
            length_penalty=length_penalty,
        )
        return tree._replace(beam=found)

    def samples(self, options: SampleOptions) -> tuple[Samples, list[Provenance]]:
        """Samples as `pellucid sample` has them, each with where it may come from."""
        found = draw_samples(self.model, options)
        return found, [self.provenance(sample.text, sample.copied) for sample in found.samples]

    def provenance(self, text: str, copied: str = "") -> Provenance:
        """The nearest item of train, the longest part of the text that stands there, and who else has that part."""
        from pellucid.decoding.novelty import longest_copied

        known = self.model.known
        if known.items is not None:
            new = known.items.novelty(text)
            span = copied or new.copied
            sharing = list(dict.fromkeys(item for item in known.items.train if span and span in item))
            return Provenance(
                text, new.where, new.nearest, new.distance, span, tuple(sharing[:MOST_SHARING]), len(sharing)
            )
        if not known.text:
            return Provenance(text, "", "", 0, "", (), 0)
        span = copied or longest_copied(text[:2_000], [known.text])
        places: list[str] = []
        at = known.text.find(span) if span else -1
        while at >= 0 and len(places) < MOST_SHARING:
            places.append(known.text[max(0, at - AROUND) : at + len(span) + AROUND])
            at = known.text.find(span, at + 1)
        return Provenance(text, "", "", 0, span, tuple(places), known.text.count(span) if span else 0)

    def score(self, text: str) -> ScoredText:
        """The surprise of every token of a text."""
        if not text:
            raise PellucidError("the text is empty", fix="Type something")
        return score_text(self.model, text)

    def facts(self) -> dict[str, Any]:
        """What a page has to know of the model before anything is asked of it."""
        vocabulary = self.model.vocabulary
        return {
            "is_list": self.model.is_list,
            "vocab_size": len(vocabulary),
            "longest_prompt": self.model.longest_prompt,
        }

    def _name(self, token: int) -> str:
        from pellucid.figures.words.notation import token_label

        vocabulary = self.model.vocabulary
        if self.model.is_list and token == vocabulary.closing:
            return "·"
        return token_label(vocabulary.tokens[token])
