"""For each lesson a record small enough to check by hand: what its drawing is tried on."""

import math

from pellucid.lessons.attention_masks import MaskForms, MasksCompared
from pellucid.lessons.attention_sensitivity import SensitivityStudy
from pellucid.lessons.batch_size import BatchSizeResult, BatchSizeStudy
from pellucid.lessons.bigram_smoothing import SmoothedLoss, SmoothedRow, SmoothingStudy
from pellucid.lessons.dead_unit import DeadUnitStudy
from pellucid.lessons.decay import DecayStudy
from pellucid.lessons.dice import DiceStudy, ExactNumber
from pellucid.lessons.gains import GainStudy
from pellucid.lessons.given_attention import GivenAttention, GivenAttentions, GivenWeights
from pellucid.lessons.grid_partition import GridPartition, GridStudy, Rectangle
from pellucid.lessons.hand_set_attention import HandSetPass, HandSetVariants
from pellucid.lessons.heads_and_groups import ChannelReads, HeadsAndGroups
from pellucid.lessons.heads_or_width import HeadsOrWidth, HeadSplit, HeadTiming
from pellucid.lessons.hockey_stick import StartStudy
from pellucid.lessons.image_patches import ImagePatches
from pellucid.lessons.lesson import Curve
from pellucid.lessons.logits import LogitRow, LogitStudy, TemperatureCurve
from pellucid.lessons.network_diagram import DiagramLayer, NetworkDiagram
from pellucid.lessons.one_hot import OneHotStudy
from pellucid.lessons.parallel_steps import NetworkPasses, ParallelStudy, TokenPass
from pellucid.lessons.path_length import PathGradients, PathStudy
from pellucid.lessons.pooling_shifts import ShiftCurve, ShiftStudy
from pellucid.lessons.position_encodings import PositionEncoding, PositionEncodings
from pellucid.lessons.probability_losses import LossCurve, LossStudy
from pellucid.lessons.road_to_attention import AttentionRoad
from pellucid.lessons.sample_images import ClassSamples, SampleSheet
from pellucid.lessons.saturation import SaturationStudy
from pellucid.lessons.scalar_rnn import Unrolled, UnrolledNetworks
from pellucid.lessons.score_scale import ScaledScores, ScoreScaleStudy, WidthScores
from pellucid.lessons.separable import SeparableRun, SeparableStudy
from pellucid.lessons.slope import SlopeStudy
from pellucid.lessons.streaming import FrameCost, FrameTiming, LookAheadResult, ShownRecording, StreamingStudy
from pellucid.lessons.token_costs import TokenCosts
from pellucid.lessons.vit_resolution import ResolutionResult, ResolutionStudy
from pellucid.records import Histogram, LayerStats, TokenCost, UnitMap


def _tiny_gains() -> GainStudy:
    def layer(deviation: float, gradient: float) -> LayerStats:
        values = Histogram(-1.0, 1.0, (1, 3, 5, 3, 1))
        gradients = Histogram(-gradient * 3, gradient * 3, (1, 4, 6, 4, 1))
        return LayerStats("", "Tanh", 4, 3, 0.0, deviation, 0.1, 0, 0.0, gradient, values, gradients)

    stacks = (
        (0.5, (layer(0.4, 0.001), layer(0.2, 0.002))),
        (5 / 3, (layer(0.7, 0.01), layer(0.6, 0.011))),
        (3.0, (layer(0.9, 0.05), layer(0.9, 0.02))),
    )
    return GainStudy("three names", "tanh", 1.5925, stacks)


def _tiny_loss(name: str, values: tuple[float, ...]) -> LossCurve:
    return LossCurve(
        name,
        4.6,
        -1.0,
        values,
        (-1.0, -0.5, 0.0),
        0.0,
        values,
        (-2.0, -1.0, 0.0),
        -0.5,
        -4.0,
        ((1.0, 0.5), (0.2, 0.0)),
        0.25,
        0.5,
    )


TINY_LESSONS: dict[str, object] = {
    "batch-size": BatchSizeStudy(
        source="a table of 100 rows",
        network="mlp",
        n_parameters=10,
        rows_meet=False,
        n_rows=80,
        side="dev",
        optimizer="sgd",
        learning_rate=0.1,
        scaling="none",
        epochs=2.0,
        steps=5,
        noise_scale=12.0,
        exponent=-1.0,
        sizes=(
            BatchSizeResult(2, 2.0, (1.0, 1.1), 1e-4, 1000, 80, (0.5, 0.6), (0.9, 0.8)),
            BatchSizeResult(8, 8.0, (0.25, 0.24), 3e-5, 4000, 20, (0.7, 0.65), (0.75, math.nan)),
        ),
    ),
    # Two coins, the smaller side: 1 in three of four.
    "dice": DiceStudy(
        2, 2, 1, (ExactNumber(1, 1), ExactNumber(1, 4)), ExactNumber(5, 4), ExactNumber(5, 4), 0.433, 4, (3, 1), 5, 2.0
    ),
    "grid-partition": GridStudy(
        GridPartition((0, 1), (Rectangle(0, 1, 0, 1), Rectangle(1, 0, 1, 0))),
        GridPartition((1, 0), (Rectangle(0, 0, 0, 0), Rectangle(1, 1, 1, 1))),
        ((2, 2),),
    ),
    "logits": LogitStudy(
        1,
        1.0,
        (LogitRow("zeros", (0.0, 0.0), (0.5, 0.5), math.log(2)), LogitRow("huge", (9e9, 0.0), (1.0, 0.0), 9e9)),
        TemperatureCurve(
            (1.0, 0.0), (0.01, 1000.0), ((1.0, 0.0), (0.5, 0.5)), (0.0, math.log(2)), (1.0, 0.0), (0.5, 0.5)
        ),
    ),
    "losses": LossStudy(
        0.01,
        (-1.0, 0.0, 1.0),
        (0.25, 0.5, 0.75),
        0.01,
        1.0,
        2,
        (_tiny_loss("cross-entropy", (1.3, 0.7, 0.3)), _tiny_loss("squared error", (0.5, 0.25, 0.1))),
    ),
    "network-diagram": NetworkDiagram(
        "nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(9, 2))",
        (1, 4, 4),
        (
            DiagramLayer("Conv2d", "2 of 3×3", (2, 2, 2), 20),
            DiagramLayer("ReLU", "", (2, 2, 2), 0),
            DiagramLayer("Flatten", "", (8,), 0),
            DiagramLayer("Linear", "9 to 2", (), 20, fails=True),
        ),
        40,
        "Linear(9, 2) is fed 8 features",
    ),
    "pooling-shifts": ShiftStudy(
        4,
        99,
        20,
        5,
        2,
        (ShiftCurve("max", (0.9, 0.6), (0.05, 0.1)), ShiftCurve("strided", (0.9, 0.4), (math.nan, 0.0))),
        ((("#000000", "#ffffff"), ("#000000", "#000000")), (("#000000", "#000000"), ("#ffffff", "#000000"))),
    ),
    "samples": SampleSheet(
        "two images",
        (2, 1),
        2,
        2,
        (
            ClassSamples("<cat>", 1, ((("#000000", "#ffffff"),),), ("image 1",)),
            ClassSamples("dog", 1, ((("#ff8800", "#ffffff"),),), ("image 2",)),
        ),
    ),
    "separable": SeparableStudy(
        ((1.0, 0.5, 1), (-1.0, 0.5, -1)),
        (1.0, 0.0),
        1.0,
        0.5,
        (1, 10, 100),
        SeparableRun(0.0, (0.5, 2.0, 4.3), (0.6, 0.2, 0.02), (3.0, 1.0, 0.1), (4.3, 0.0)),
        SeparableRun(0.1, (0.5, 1.0, 1.1), (0.6, 0.4, 0.38), (3.0, 2.0, 2.0), (1.1, 0.1)),
        1.0,
        -1.0,
        1.1,
    ),
    "vit-resolution": ResolutionStudy(
        "A vit",
        4,
        (2, 2),
        2,
        20,
        (ResolutionResult(4, (2, 2), 0.9, 0.9, 0.2), ResolutionResult(6, (3, 3), 0.7, 0.1, 0.1)),
        ((0.0, 2.0), (4.0, 6.0)),
        ((0.0, 1.0, 2.0), (2.0, 3.0, 4.0), (4.0, 5.0, 6.0)),
        ((0.0, 2.0, 4.0), (6.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
    ),
    "slope": SlopeStudy(
        "x^2",
        "x",
        1.0,
        1.0,
        value=1.0,
        value_ahead=4.0,
        exact=2.0,
        forward=3.0,
        central=2.0,
        points=((0.0, 0.0), (1.0, 1.0), (2.0, 4.0)),
        flat=(0.0,),
        errors=((1.0, 1.0, 0.0), (0.1, 0.1, 1e-15)),
    ),
    "masks": MasksCompared(
        (
            MaskForms(
                "causal",
                "nothing later",
                ((True, False), (True, True)),
                ((0.0, -math.inf), (0.0, 0.0)),
                ((1.0, 0.0), (0.5, 0.5)),
            ),
        )
    ),
    "sensitivity": SensitivityStudy(
        source="2 positions",
        key=0,
        length=0.5,
        weights=((1.0, 0.0), (0.5, 0.5)),
        measured=((0.0, 0.0), (0.12, -0.12)),
        predicted=((0.0, 0.0), (0.125, -0.125)),
        reach=(0.0, 0.4),
    ),
    "smoothing": SmoothingStudy(
        source="two words",
        symbols=("·", "a"),
        has_boundary=True,
        after=0,
        n_after=2,
        n_train=4,
        n_dev=2,
        n_dev_unseen=1,
        rows=(SmoothedRow(0.0, (0.0, 1.0)), SmoothedRow(2.0, (1 / 3, 2 / 3))),
        losses=(SmoothedLoss(0.0, 0.35, math.inf), SmoothedLoss(1.0, 0.5, 0.6), SmoothedLoss(2.0, 0.6, 0.65)),
    ),
    "dead-unit": DeadUnitStudy(
        source="three names",
        units=UnitMap("layers.0", "Tanh", ("0900", "0909"), ("5078", "1094")),
        dead=(1,),
        gradient_of_dead=0.0,
        gradient_of_others=0.02,
    ),
    "decay": DecayStudy(
        source="three names",
        kept=Curve("kept", (1, 2, 3, 4), (3.3, 2.2, 2.9, 2.3)),
        decayed=Curve("decayed", (1, 2, 3, 4), (3.3, 2.2, 2.1, 2.08)),
        rates=Curve("rate", (1, 2, 3, 4), (1.0, 1.0, 0.1, 0.1)),
        decay_step=3,
        unrest_before=0.5,
        unrest_after=0.02,
        dev_kept=2.4,
        dev_decayed=2.1,
    ),
    "gains": _tiny_gains(),
    "convolution-like": GivenAttentions(
        "2 positions",
        (
            GivenAttention(
                "identity",
                "each asks for itself",
                ((1.0, 0.0), (0.0, 1.0)),
                (GivenWeights(1.0, ((0.7, 0.3), (0.3, 0.7)), 0.3),),
            ),
        ),
    ),
    "hand-set-attention": HandSetVariants(
        (
            HandSetPass(
                description="hard",
                tokens=("A", "START", "A"),
                vocabulary=("A", "START"),
                n_input=2,
                attention=((1.0, 0.0, 0.0), (0.5, 0.5, 0.0), (0.5, 0.0, 0.5)),
                z=((1.0,), (0.5,), (1.0,)),
                logits=((1.0, 0.0), (0.5, 0.0), (1.0, 0.0)),
                probabilities=((0.73, 0.27), (0.62, 0.38), (0.73, 0.27)),
                own=(0.73,),
                before=(0.62,),
                unshifted_loss=0.3147,
                shifted_loss=0.478,
            ),
        )
    ),
    "heads-and-groups": HeadsAndGroups(
        "2 positions",
        width=2,
        heads=2,
        kernel=1,
        layers=(
            ChannelReads("convolution", 4, ((1.0, 0.5), (0.5, 1.0)), 0.2, 0.0),
            ChannelReads("convolution in 2 groups", 2, ((1.0, 0.0), (0.0, 1.0)), 0.0, 0.0),
            ChannelReads("2 heads", 6, ((1.0, 0.0), (0.0, 0.9)), 0.0, 0.7),
        ),
        fixed_off=1e-16,
        shifts_off=0.0,
        one_head=1.0,
    ),
    "heads-or-width": HeadsOrWidth(
        "three names",
        width=4,
        depth=2,
        vocab_size=3,
        best=1.5,
        wide=8,
        n_positions=2,
        splits=(HeadSplit(1, 4, 408, (2.0, 2.1), 256, 4), HeadSplit(2, 2, 408, (1.9, 1.8), 256, 8)),
        timings=(HeadTiming(1, 0.5, 1.5), HeadTiming(2, 0.6, 1.6)),
    ),
    "hockey-stick": StartStudy(
        source="three names",
        uniform=3.2958,
        bad=Curve("bad", (1, 2, 3), (27.0, 4.0, 2.6)),
        good=Curve("good", (1, 2, 3), (3.3, 2.8, 2.5)),
        bad_description="weights drawn from N(0, 1)",
        good_description="the last layer scaled down",
    ),
    "patches": ImagePatches(
        "a tiny image",
        (("#000000", "#ffffff", "#ff8800", "#0088ff"), ("#ffffff", "#000000", "#0088ff", "#ff8800")),
        patch=2,
        channels=3,
    ),
    "positions": PositionEncodings(
        source="2 positions",
        kinds=(
            PositionEncoding("index", "input", ((0.0, 0.0), (1.0, 0.0)), ((0.0, 0.0), (0.0, 1.0))),
            PositionEncoding("alibi", "scores", (), ((0.0, -0.5), (-0.5, 0.0))),
        ),
    ),
    "road": AttentionRoad(
        tokens=("b", "a"),
        seed=1,
        averaging=((1.0, 0.0), (0.5, 0.5)),
        wei=((0.0, -math.inf), (0.0, 0.0)),
        softmax_of_wei=((1.0, 0.0), (0.5, 0.5)),
        weights=((1.0, 0.0), (0.8, 0.2)),
    ),
    "saturation": SaturationStudy(
        source="three names",
        bad=UnitMap("layers.0", "Tanh", ("9990", "9909"), ("0003", "0090")),
        good=UnitMap("layers.0", "Tanh", ("0000", "0090"), ("4567", "8901")),
        bad_saturated=0.75,
        good_saturated=0.125,
    ),
    "score-scale": ScoreScaleStudy(
        "two queries",
        deviation=1.0,
        n_keys=2,
        widths=(
            WidthScores(1, 1.0, 0.04, ScaledScores(1.1, 0.6, 0.9, 0.4), ScaledScores(1.1, 0.6, 0.9, 0.4)),
            WidthScores(16, 16.0, 0.02, ScaledScores(16.4, 0.95, 0.1, 0.05), ScaledScores(1.025, 0.6, 0.9, 0.4)),
        ),
    ),
    "parallel-steps": ParallelStudy(
        width=4,
        depth=1,
        batch=1,
        networks=(
            NetworkPasses(
                "RNN",
                "list",
                (TokenPass(2, 3, 0.001), TokenPass(8, 9, 0.004)),
                (TokenPass(2, 4, 0.002), TokenPass(8, 16, 0.008)),
            ),
            NetworkPasses(
                "transformer",
                "list",
                (TokenPass(2, 7, 0.001), TokenPass(8, 7, 0.001)),
                (TokenPass(2, 14, 0.003), TokenPass(8, 56, 0.012)),
            ),
        ),
    ),
    "path-length": PathStudy(
        length=3,
        width=4,
        scale=1.0,
        n_sequences=2,
        networks=(
            PathGradients("rnn", (0.5, 0.25, 0.125), (3, 6, 9)),
            PathGradients("attention", (0.1, 0.01, 0.01), (14, 14, 14)),
        ),
    ),
    "scalar-rnn": UnrolledNetworks(
        "identity", (0.5,), (Unrolled((1.0, 2.5), (0.0, 1.0, 2.5), 3.125, 2.5, 6.25, 2.5, (0.5, 1.0)),)
    ),
    "streaming": StreamingStudy(
        "two recordings",
        noise=1.5,
        context=4,
        frame_ms=20.0,
        n_judged=100,
        loudest=0.7,
        parameters=100,
        results=(LookAheadResult(0, 0.8, 0.85, 1e-15), LookAheadResult(2, 0.88, 0.9, 0.0)),
        costs=(FrameCost(10, 100, 2_000), FrameCost(20, 100, 6_000)),
        shown=ShownRecording(((20.0, 9.5), (8.0, 21.0)), (0, 1), ((0, 0), (0, 1))),
        timings=(FrameTiming(10, 0.5, 0.6), FrameTiming(20, 0.5, 1.1)),
    ),
    "one-hot": OneHotStudy(
        symbols=("a", "b"),
        context=(1,),
        one_hot=((0.0, 1.0),),
        tables=(((0.5, -0.5), (1.25, -2.0)),),
        rows=((1.25, -2.0),),
        by_product=(1.25, -2.0),
        by_lookup=(1.25, -2.0),
        by_network=(1.25, -2.0),
        n_multiplications=4,
        seed=1,
        uniform=math.log(2),
        expected_loss=0.9,
    ),
    "token-costs": TokenCosts(
        11,
        64,
        4,
        (TokenCost("characters", 11, 8, 1_000, 5_000, 30.3, 5.0), TokenCost("words", 2, 2, 33, 1_200, 1.0, 1.0)),
    ),
}
