"""The journey from a derivative to a vision transformer: its steps in order, each one command with one sentence.

A step runs on what comes with pellucid, without a network, in well under a minute. This table is the only place where
steps are declared: `pellucid learn`, its page and the tests read it.
"""

from __future__ import annotations

import shlex
from typing import NamedTuple

from pellucid.errors import require_one_of


class LearnStep(NamedTuple):
    """One step of the journey. `command` is what stands behind `pellucid`."""

    name: str
    says: str
    command: str

    @property
    def words(self) -> list[str]:
        """The command as a shell would hand it over.

        >>> LearnStep("neuron", "", 'derive "tanh(w*x)" w=1 x=2').words
        ['derive', 'tanh(w*x)', 'w=1', 'x=2']
        """
        return shlex.split(self.command)


_CNN = (
    "nn.Sequential(nn.Conv2d(1, 8, 5), nn.AvgPool2d(4), nn.ReLU(), nn.Conv2d(8, 16, 4, padding=1), nn.AvgPool2d(2), "
    "nn.ReLU(), nn.Flatten(), nn.Linear(120, 10))"
)

JOURNEY: dict[str, tuple[LearnStep, ...]] = {
    "Derivatives and graphs": (
        LearnStep(
            "slope",
            "A slope is rise over run for a step that shrinks, and stops getting better before the step is 0.",
            'draw slope "3*x^2-4*x+5" --at 3 --out slope.svg',
        ),
        LearnStep(
            "derivative",
            "Where the derivative is 0 the curve turns: 6x − 4 at x = 2/3.",
            'derive "3*x^2 - 4*x + 5" x=2/3',
        ),
        LearnStep(
            "differences",
            "Nudge one input at a time, and each partial derivative shows in the difference.",
            'derive "x1*x2 + x3" x1=2 x2=-4 x3=10 --h 0.001',
        ),
        LearnStep(
            "graph",
            "An expression is a graph of values and operations, drawn with a gradient in each node.",
            'derive "w4 = w1*w2; w5 = w3 + w4; L = w5*w6" w1=2 w2=-3 w3=10 w6=-2 --svg graph.svg',
        ),
        LearnStep(
            "engine",
            "Backpropagation is upstream times local slope, edge by edge: a neuron with a sigmoid, every step of it.",
            'derive "1/(1+exp(-(w0*x0+w1*x1+w2)))" w0=2 x0=-1 w1=-2 x1=-2 w2=-3',
        ),
        LearnStep(
            "sharing",
            "What is used twice gets the sum of both gradients.",
            'derive "x*x + x" x=3',
        ),
    ),
    "Counting": (
        LearnStep(
            "tokens",
            "A text is indices, and each of its windows is a question with an answer.",
            'tokens "bad dab" --context 4',
        ),
        LearnStep(
            "emma",
            "A word is a walk through a graph of its bigrams.",
            "draw bigram-graph --word emma --out emma.svg",
        ),
        LearnStep(
            "counting",
            "Thirty thousand names are one matrix of what follows what.",
            "draw bigram-matrix names --out names.svg",
        ),
        LearnStep(
            "sampling",
            "Divide each row by its sum, draw letter by letter, and stop at the boundary.",
            "sample names --model bigram -n 8 --seed 1",
        ),
        LearnStep(
            "likelihood",
            "The loss is the mean surprise: −log of the probability of each next letter.",
            "score names emma --model bigram",
        ),
        LearnStep(
            "smoothing",
            "One pair that was never seen makes the loss infinite; a little more of everything mends it.",
            "draw smoothing names --after q --out smoothing.svg",
        ),
        LearnStep(
            "ngrams",
            "Longer contexts are better until the table is empty: the best that counting does.",
            "score names emma",
        ),
    ),
    "From counting to learning": (
        LearnStep(
            "one-hot",
            "A one-hot vector times a matrix is a row of it, so that a network can look rows up.",
            "draw one-hot --out one-hot.svg",
        ),
        LearnStep(
            "neural-ngram",
            "A matrix that learns by gradients comes to where counting is.",
            "train names --model neural-ngram --n 2 --start scratch --steps 500 --threads 1",
        ),
        LearnStep(
            "rate",
            "Too small a learning rate learns nothing, too large a one unlearns.",
            "draw learning-rate names --out rate.svg",
        ),
        LearnStep(
            "decay",
            "A loss that cannot settle settles when the rate is divided.",
            "draw decay --out decay.svg",
        ),
        LearnStep(
            "mlp",
            "Three letters, ten numbers for each, 200 tanh units: the classic 11,897 parameters.",
            "train names --model mlp --context 3 --embedding 10 --hidden 200 --depth 1 --start scratch --steps 200 "
            "--threads 1",
        ),
    ),
    "A good start": (
        LearnStep(
            "logits",
            "Seven rows of logits with their loss: without an opinion it is ln of the number of classes.",
            "draw logits --out logits.svg",
        ),
        LearnStep(
            "initialisation",
            "A bad start spends its first steps on unlearning its own opinions.",
            "draw hockey-stick --steps 300 --out hockey-stick.svg",
        ),
        LearnStep(
            "saturation",
            "Units that are saturated pass no gradient on.",
            "draw saturation --out saturation.svg",
        ),
        LearnStep(
            "dead-unit",
            "A unit that is flat on every example never learns again.",
            "draw dead-unit --out dead-unit.svg",
        ),
        LearnStep(
            "gains",
            "The right gain keeps activations and gradients alive through six layers.",
            "draw gains --out gains.svg",
        ),
        LearnStep(
            "batch-norm",
            "Normalised over the batch, a layer is well scaled whatever its weights are.",
            "train names --model mlp --norm batch --size tiny --start scratch --steps 100 --threads 1",
        ),
    ),
    "Attention": (
        LearnStep(
            "attention",
            "From the mean of the past to weights that the data choose, in four matrices.",
            'draw road --input "bad dab" --out road.svg',
        ),
        LearnStep(
            "masks",
            "Zeros and −∞ say who may look at whom, and softmax does the rest.",
            "draw masks --out masks.svg",
        ),
        LearnStep(
            "scale",
            "Scores have variance d, so they are divided by √d.",
            "draw score-scale --out score-scale.svg",
        ),
        LearnStep(
            "sensitivity",
            "Move one key: every query that sees it feels it, and the derivative says how much.",
            "draw sensitivity --out sensitivity.svg",
        ),
        LearnStep(
            "convolution-like",
            "With positions and scale alone attention is the identity, a permutation or a convolution.",
            "draw convolution-like --out convolution-like.svg",
        ),
        LearnStep(
            "heads",
            "Heads cut channels into parts, as groups of a convolution do, and where they differ.",
            "draw heads-and-groups --out heads.svg",
        ),
        LearnStep(
            "positions",
            "Without positions attention sees a set; six ways to tell it the order.",
            "draw positions --out positions.svg",
        ),
    ),
    "Transformers": (
        LearnStep(
            "path-length",
            "What a network is told reaches an early token over many steps of an RNN, and over one of attention.",
            "draw path-length --out path-length.svg",
        ),
        LearnStep(
            "transformer",
            "Blocks of attention and feed-forward, trained on names beside everything that counts.",
            "train names --model transformer --size tiny --steps 200 --threads 1",
        ),
        LearnStep(
            "looking",
            "What each head of a small transformer attends to while it reads a name.",
            "draw attention-maps --input isabella --out attention-maps.svg",
        ),
        LearnStep(
            "token-costs",
            "Letters cost more tokens than words, and attention pays for each pair of them.",
            "draw token-costs --out token-costs.svg",
        ),
        LearnStep(
            "patches",
            "An image is a row of patches.",
            "draw patches digits --out patches.svg",
        ),
        LearnStep(
            "vit",
            "A vision transformer of digits, beside simple models.",
            "train digits --model vit --size tiny --steps 200 --threads 1",
        ),
    ),
    "Data and losses": (
        LearnStep(
            "data",
            "A few large incomes pull the mean away from the median: what a heavy tail is.",
            "draw histogram incomes --out incomes.svg",
        ),
        LearnStep(
            "splits",
            "A stratified split gives each side its part of the tail, where chance would not.",
            "split --demo transactions --dry-run",
        ),
        LearnStep(
            "time-split",
            "To foresee what comes later, train on the first 80 % and test on the last 20 %.",
            "split --demo transactions --drift --fractions 0.8,0.2 --dry-run",
        ),
        LearnStep(
            "losses",
            "Sure and wrong: cross-entropy says so loudly, squared error falls silent.",
            "draw losses --out losses.svg",
        ),
        LearnStep(
            "polynomial",
            "A network of two layers of 64 fits a function without noise, on new rows as well.",
            "train polynomial --target y --model mlp --hidden 64 --depth 2 --steps 300 --folds 0 --threads 1",
        ),
    ),
    "Exam questions and puzzles": (
        LearnStep(
            "temperature",
            "softmax(z/T) goes from all for the best to the same for each.",
            'derive "softmax(z/T)[0]" "z=[4,3,2,1]" T=0.5 --brief',
        ),
        LearnStep(
            "exam",
            "A CNN whose shapes disagree: what reached the layer, where it comes from and what mends it.",
            f'inspect "{_CNN}" --input 1,1,32,32',
        ),
        LearnStep(
            "recurrent",
            "A recurrent network of one number: its gradient is a power of its weight.",
            "draw scalar-rnn --out scalar-rnn.svg",
        ),
        LearnStep(
            "sorter",
            "A decoder set by hand that drops doubles and sorts: every weight and its loss.",
            "draw hand-set-attention --out sorter.svg",
        ),
        LearnStep(
            "xor",
            "A hidden layer learns XOR, and no line can.",
            "train xor --model mlp --steps 300 --threads 1",
        ),
        LearnStep(
            "dice",
            "The smallest of three dice is 49/24 on average, by a sum and by rolling.",
            "draw dice --out dice.svg",
        ),
        LearnStep(
            "grid",
            "Five rectangles are enough, for two of 24 ways to take four cells out.",
            "draw grid-partition --removed 2,4,1,3 --out grid.svg",
        ),
    ),
}


def all_steps() -> dict[str, LearnStep]:
    """Every step by its name, in order."""
    steps = [step for part in JOURNEY.values() for step in part]
    found = {step.name: step for step in steps}
    assert len(found) == len(steps), "two steps share a name"
    return found


def find_step(name: str) -> LearnStep:
    """The step of that name or number, or an error that brings the nearest one.

    >>> find_step("derivative").command, find_step("2").name
    ('derive "3*x^2 - 4*x + 5" x=2/3', 'derivative')
    """
    steps = all_steps()
    if name.isdecimal() and 1 <= int(name) <= len(steps):
        return list(steps.values())[int(name) - 1]
    require_one_of("step", name, steps)
    return steps[name]


def next_step(step: LearnStep) -> LearnStep | None:
    """The one after it; None after the last.

    >>> next_step(find_step("slope")).name, next_step(find_step("grid"))
    ('derivative', None)
    """
    steps = list(all_steps().values())
    place = steps.index(step) + 1
    return steps[place] if place < len(steps) else None
