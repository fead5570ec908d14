"""The decoding tree: at each place of a text, what might have stood there, and how temperature and filters bend it.

The scores come from a function that remembers what it was asked (`RememberedScores`), so that another temperature,
another k or another branch costs no pass of the network that was made before.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np

from pellucid.decoding.beam import Hypothesis, beam_search
from pellucid.decoding.sampling import (
    NEVER,
    Chances,
    FloatArray,
    IntArray,
    Scores,
    log_softmax,
    sampling_probabilities,
)
from pellucid.records import BeamLevel, BeamNode, BeamTree, TreeBranch, TreeLevel

MOST_NUMBERS = 8 << 20  # that are remembered: 64 MB
MOST_ROWS = 1 << 13  # of few symbols each: more than a page can ask for, and a few megabytes
BESIDE_A_ROW = 100  # numbers' worth of memory that a remembered row takes beside its own
Show = Callable[[int], str]


class RememberedScores:
    """Scores by everything that was read: each row is asked of the model once.

    >>> asked = []
    >>> def scores(rows):
    ...     asked.append(len(rows))
    ...     return np.log(np.full((len(rows), 2), 0.5))
    >>> remembered = RememberedScores(scores)
    >>> _ = remembered(np.array([[0], [1]])), remembered(np.array([[1], [0], [2]]))
    >>> asked
    [2, 1]
    """

    def __init__(self, scores: Scores) -> None:
        self._scores = scores
        self._known: OrderedDict[bytes, FloatArray] = OrderedDict()
        self.n_asked = 0  # rows that the model was asked for

    def __call__(self, contexts: IntArray) -> FloatArray:
        contexts = np.ascontiguousarray(contexts, np.int64)
        keys = [row.tobytes() for row in contexts]
        missing = {key: at for at, key in enumerate(keys) if key not in self._known}
        if missing:
            self.n_asked += len(missing)
            for key, row in zip(missing, self._scores(contexts[list(missing.values())]), strict=True):
                self._known[key] = row.copy()  # a view would keep all that was computed with it
        found = np.stack([self._known[key] for key in keys])
        for key in keys:
            self._known.move_to_end(key)
        most = min(MOST_ROWS, MOST_NUMBERS // (found.shape[1] + BESIDE_A_ROW))
        while len(self._known) > most:
            self._known.popitem(last=False)
        return found


def grow_tree(
    scores: Scores,
    *,
    start: Sequence[int],
    path: Sequence[int],
    longest: int,
    show: Show,
    stop: int = NEVER,
    n_branches: int = 8,
    seed: int | None = None,
    temperature: float = 1.0,
    **filters: float,
) -> tuple[tuple[TreeLevel, ...], float]:
    """The levels of a text after its start, and the log-probability of its tokens.

    The text goes along `path`, and from its end on by the likeliest token, or with a seed by chance as sampling has it:
    the same seed draws what sample 0 of `draw_tokens` is, if the path is empty.

    >>> table = np.log([[1e-9, 0.6, 0.4], [0.7, 0.2, 0.1], [0.9, 0.05, 0.05]])
    >>> levels, log = grow_tree(
    ...     lambda read: table[read[:, -1]], start=[0], path=[2], longest=5, stop=0, show=str, temperature=0.5
    ... )
    >>> [level.chosen for level in levels], round(float(np.exp(log)), 2)
    ([2, 0], 0.36)
    >>> [round(branch.bent, 3) for branch in levels[0].branches]
    [0.692, 0.308, 0.0]
    """
    chances = None if seed is None else Chances(seed)
    read, levels, total = list(start), [], 0.0
    for step in range(longest):
        row = scores(np.array([read], np.int64))
        bent = sampling_probabilities(row, temperature, **filters)[0]
        if step < len(path):
            chosen = int(path[step])
        elif chances is None:
            chosen = int(bent.argmax())
        else:
            heaps = np.cumsum(bent)
            chosen = int((heaps <= chances.at(step, 1)[0] * heaps[-1]).sum())
        logs = log_softmax(row)[0]
        levels.append(_level(np.exp(logs), bent, chosen, n_branches, show, stop))
        total += float(logs[chosen])
        if chosen == stop:
            break
        read.append(chosen)
    return tuple(levels), total


def _level(shares: FloatArray, bent: FloatArray, chosen: int, n_branches: int, show: Show, stop: int) -> TreeLevel:
    order = np.argsort(-shares, kind="stable")[:n_branches].tolist()
    if chosen not in order:
        order[-1] = chosen
    branches = tuple(
        TreeBranch(token, show(token), float(shares[token]), float(bent[token]), token == stop) for token in order
    )
    kept = bent[bent > 0]
    return TreeLevel(
        branches,
        chosen,
        len(shares) - len(order),
        max(0.0, float(shares.sum() - shares[order].sum())),
        max(0.0, float(bent.sum() - bent[order].sum())),
        len(kept),
        float(-(kept * np.log2(kept)).sum()) + 0.0,
    )


def grow_beam(
    scores: Scores,
    *,
    width: int,
    start: Sequence[int],
    longest: int,
    show: Show,
    decode: Callable[[Sequence[int]], str],
    stop: int = NEVER,
    length_penalty: float = 0.0,
) -> BeamTree:
    """Everything that a beam search looked at, as a tree in which each node knows what became of it.

    >>> table = np.log([[1e-9, 0.6, 0.4], [0.4, 0.3, 0.3], [0.9, 0.05, 0.05]])
    >>> tree = grow_beam(lambda read: table[read[:, -1]], width=2, start=[0], longest=9, stop=0, show=str, decode=str)
    >>> [(node.level, node.text, node.fate) for node in tree.nodes][:3], tree.found[0][0]
    ([(0, '1', 'finished'), (0, '2', 'best'), (0, '0', 'cut')], '(2,)')
    """
    levels: list[BeamLevel] = []
    found = beam_search(
        scores,
        width=width,
        longest=longest,
        start=start,
        stop=stop,
        length_penalty=length_penalty,
        on_level=levels.append,
    )
    return BeamTree(
        tuple(_beam_nodes(levels, found, show, stop)),
        tuple((decode(one.drawn.tokens), float(np.exp(one.drawn.log_probability))) for one in found),
    )


def _beam_nodes(levels: Sequence[BeamLevel], found: Sequence[Hypothesis], show: Show, stop: int) -> list[BeamNode]:
    """The nodes of all levels; which of them lead to what was found is known only at the end."""
    nodes: list[BeamNode] = []
    texts: list[tuple[int, ...]] = []  # the tokens up to each node
    alive: list[int] = [-1]
    for number, level in enumerate(levels):
        stays: list[int] = []
        for candidate in level.candidates:
            parent = alive[candidate.parent]
            before = texts[parent] if parent >= 0 else ()
            texts.append((*before, candidate.token))
            fate = "died" if candidate.is_kept else "cut"
            nodes.append(
                BeamNode(number, parent, show(candidate.token), float(np.exp(candidate.log_probability)), fate)
            )
            if candidate.is_kept and not candidate.is_end:
                stays.append(len(nodes) - 1)
        alive = stays
    for rank, hypothesis in reversed(list(enumerate(found))):
        tokens = hypothesis.drawn.tokens
        for at, node in enumerate(nodes):
            # The closing token stands behind the tokens of what has ended.
            is_on_way = texts[at] == tokens[: len(texts[at])] or texts[at] == (*tokens, stop)
            if node.fate != "cut" and is_on_way:
                nodes[at] = node._replace(fate="best" if rank == 0 else "finished")
    return nodes
