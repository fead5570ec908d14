"""Vision transformers beside CNNs: who needs how many images, and whether neighbourhood is what makes the difference.

Both networks have the plan that `pellucid train --size small` gives them, of digits 27,274 and 29,066 parameters, and
the same training: 300 steps of AdamW on 64 images, without dropout and without images that are moved. Nearly all
digits of train are then told right, and what is compared is the share of held-out ones. To scramble is to move all
pixels, or all patches, to other places: the same places in every image. What each place holds stays, and neighbours are
lost.

The data sets that the comparison is known from are not here. Their sizes are those that their authors give, and what is
said of networks that were trained on them is asked of digits: how it comes out with fewer and with more of them.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search, closeness
from pellucid.errors import PellucidError
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor

    from pellucid.models.contracts import ExampleModel
    from pellucid.models.examples.configs import ExampleShape

IMAGES = "Data that it is asked of: images, such as digits."
FEWEST = 100  # images of train, and a fifth as many held out
STEPS, BATCH, RATE = 300, 64, 3e-3
TUNED_STEPS, TUNED_RATE = 150, 1e-3  # of a second training, on other images
SCRAMBLINGS = ("none", "pixels", "patches")
FEW, MANY = 100, 1_400  # of the 1,465 digits of train

# Images: Russakovsky et al. 2015 for ImageNet-1k, the site of ImageNet for all of it, Dosovitskiy et al. 2021 for JFT.
IMAGENET_1K = {"train": 1_281_167, "dev": 50_000, "test": 100_000}
SET_SIZES = {"ImageNet-1k": IMAGENET_1K["train"], "ImageNet-21k": 14_197_122, "JFT-300M": 303_000_000}
SUBSET = 9_000_000


class ImageTensors(NamedTuple):
    """Images that are trained on, and those of dev and test together, which are not."""

    train: Tensor  # (n, channels, height, width)
    classes: Tensor  # (n,)
    held: Tensor
    truths: Tensor
    shape: ExampleShape


@cache
def read_image_tensors(data: str) -> ImageTensors:
    """Images on their sides, as for any training."""
    import torch

    from pellucid.data import open_data, require_kind
    from pellucid.data.kinds import ImagesData, PixelsData
    from pellucid.data.prepare import image_sides
    from pellucid.models.examples.configs import ExampleShape

    opened = open_data(data)
    require_kind(opened, "images")
    assert isinstance(opened, ImagesData | PixelsData)
    sides = image_sides(opened)
    n_held = len(sides.dev) + len(sides.test)
    if len(sides.train) < FEWEST or n_held < FEWEST // 5:
        raise PellucidError(
            f"{opened.name} leaves {len(sides.train):,} images to train on and {n_held:,} to try",
            fix=f"Give it {2 * FEWEST} or more",
        )
    parts = [[torch.from_numpy(part) for part in (side.numbers, side.targets)] for side in (sides.dev, sides.test)]
    held, truths = (torch.cat(both) for both in zip(*parts, strict=True))
    shape = ExampleShape(sides.preparation.numbers_shape, (), sides.preparation.n_outputs)
    return ImageTensors(
        torch.from_numpy(sides.train.numbers), torch.from_numpy(sides.train.targets), held, truths, shape
    )


def scramble_places(size: tuple[int, int], kind: str, patch: int, seed: int) -> Tensor:
    """The place that each pixel of a scrambled image comes from, row after row: (height · width,).

    Whole patches change places among each other; a rest at the edges that is no whole patch stays.

    >>> scramble_places((1, 4), "none", 2, seed=1).tolist()
    [0, 1, 2, 3]
    """
    import torch

    from pellucid.training.rng import torch_rng

    height, width = size
    places, rng = torch.arange(height * width), torch_rng(seed, 0, "places")
    if kind == "pixels":
        return torch.randperm(len(places), generator=rng)
    if kind == "patches":
        rows, columns = height // patch, width // patch
        whole = places.view(height, width)[: rows * patch, : columns * patch]
        cut = whole.reshape(rows, patch, columns, patch).transpose(1, 2).reshape(rows * columns, -1)
        places = places.clone()
        places[cut.flatten()] = cut[torch.randperm(len(cut), generator=rng)].flatten()
    return places


def build_reader(network: str, size: str, shape: ExampleShape, seed: int) -> ExampleModel:
    """A CNN or a vision transformer of that size, without dropout."""
    from pellucid.models.examples.cnn import CNN
    from pellucid.models.examples.configs import CNNConfig, ViTConfig
    from pellucid.models.examples.vit import ViT
    from pellucid.training.rng import seed_torch

    with seed_torch(seed, 0, "weights"):
        if network == "cnn":
            return CNN(replace(CNNConfig.of_size(size, shape), dropout=0.0))
        return ViT(ViTConfig.of_size(size, shape))


def train_reader(model: ExampleModel, images: Tensor, classes: Tensor, seed: int, steps: int, rate: float) -> None:
    """AdamW on batches that are drawn by the seed, on one thread."""
    import torch
    from torch.nn.functional import cross_entropy

    from pellucid.claims.sizes_and_latency import one_thread
    from pellucid.lessons.lesson import train_by_adamw
    from pellucid.training.rng import torch_rng

    rng = torch_rng(seed, 0, "batches")

    def loss_of(step: int) -> Tensor:
        rows = torch.randint(len(images), (BATCH,), generator=rng)
        return cross_entropy(model(images[rows], images.new_zeros(BATCH, 0)), classes[rows])

    with one_thread():
        train_by_adamw(model.train(), loss_of, rate, steps)


def score_reader(model: ExampleModel, images: Tensor, truths: Tensor) -> tuple[float, float]:
    """The share told right, and the mean loss."""
    import torch
    from torch.nn.functional import cross_entropy

    with torch.inference_mode():
        scores = model.eval()(images, images.new_zeros(len(images), 0))
        is_right: Tensor = scores.argmax(1) == truths
        return is_right.double().mean().item(), cross_entropy(scores, truths).item()


class ReaderScores(NamedTuple):
    """The share of held-out images that a trained network tells right, and its mean losses."""

    held: float
    train_loss: float
    held_loss: float


@cache
def read_after_training(
    data: str, network: str, examples: int, seed: int, scrambled: str = "none", size: str = "small"
) -> ReaderScores:
    """A network of that size, trained on so many images, which the seed draws."""
    import torch

    from pellucid.models.examples.configs import ViTConfig
    from pellucid.training.rng import torch_rng

    images = read_image_tensors(data)
    channels, height, width = images.shape.numbers
    patch = ViTConfig.of_size(size, images.shape).patch
    places = scramble_places((height, width), scrambled, patch, seed)
    train, held = (
        side.flatten(2)[:, :, places].view(-1, channels, height, width) for side in (images.train, images.held)
    )
    chosen = torch.randperm(len(train), generator=torch_rng(seed, 0, "examples"))[:examples]
    model = build_reader(network, size, images.shape, seed)
    train_reader(model, train[chosen], images.classes[chosen], seed, STEPS, RATE)
    (_, train_loss), (share, held_loss) = (
        score_reader(model, *side) for side in ((train[chosen], images.classes[chosen]), (held, images.truths))
    )
    return ReaderScores(share, train_loss, held_loss)


@dataclass(frozen=True)
class ContestKnobs:
    data: str = option("digits", IMAGES)
    examples: int = option(FEW, "Images that are trained on.", minimum=10, maximum=1_000_000)
    scrambled: str = option("none", "What is moved to other places, the same in all images", choices=SCRAMBLINGS)
    vit_examples: int = option(0, "Images of the vision transformer; 0 is as many.", minimum=0, maximum=1_000_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class LargeContestKnobs(ContestKnobs):
    examples: int = option(MANY, "Images that are trained on.", minimum=10, maximum=1_000_000)


@dataclass(frozen=True)
class ScrambledKnobs(ContestKnobs):
    scrambled: str = option("pixels", "What is moved to other places, the same in all images", choices=SCRAMBLINGS)


def measure_contest(knobs: ContestKnobs) -> Numbers:
    """What both tell of train and of held-out images, and by how much the CNN is ahead."""
    cnn, vit = (
        read_after_training(knobs.data, name, n, knobs.seed, knobs.scrambled)
        for name, n in (("cnn", knobs.examples), ("vit", knobs.vit_examples or knobs.examples))
    )
    return {
        "CNN ahead by": cnn.held - vit.held,
        "CNN": cnn.held,
        "ViT": vit.held,
        "CNN, loss rises by": cnn.held_loss - cnn.train_loss,
        "ViT, loss rises by": vit.held_loss - vit.train_loss,
    }


def measure_gap_without_neighbours(knobs: ScrambledKnobs) -> Numbers:
    """By how much the CNN is ahead on images as they are, and on scrambled ones."""
    plain, moved = measure_contest(replace(knobs, scrambled="none")), measure_contest(knobs)
    return {
        "ahead on scrambled images by": moved["CNN ahead by"],
        "ahead by": plain["CNN ahead by"],
        "CNN, scrambled": moved["CNN"],
        "ViT, scrambled": moved["ViT"],
    }


@dataclass(frozen=True)
class GapKnobs:
    data: str = option("digits", IMAGES)
    few: int = option(FEW, "Images, few of them.", minimum=10, maximum=1_000_000)
    many: int = option(MANY, "Images, more of them.", minimum=10, maximum=1_000_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_gap_by_examples(knobs: GapKnobs) -> Numbers:
    """How far a CNN is ahead of a ViT with few images and with many."""
    few, many = (measure_contest(ContestKnobs(knobs.data, n, seed=knobs.seed)) for n in (knobs.few, knobs.many))
    return {
        "gap is smaller by": few["CNN ahead by"] - many["CNN ahead by"],
        "gap with few": few["CNN ahead by"],
        "gap with many": many["CNN ahead by"],
        "ViT with many": many["ViT"],
    }


@dataclass(frozen=True)
class LargerViTKnobs:
    data: str = option("digits", IMAGES)
    few: int = option(FEW, "Images, few of them.", minimum=10, maximum=1_000_000)
    many: int = option(MANY, "Images, more of them.", minimum=10, maximum=1_000_000)
    larger_few: int = option(
        0, "Images of the larger network where there are few; 0 is as many.", minimum=0, maximum=1_000_000
    )
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_larger_vit(knobs: LargerViTKnobs) -> Numbers:
    """Two vision transformers of digits, of 7,242 and 27,274 parameters: as far apart as ViT-B and ViT-L."""

    def told(size: str, examples: int) -> float:
        return read_after_training(knobs.data, "vit", examples, knobs.seed, size=size).held

    few, many = told("tiny", knobs.few), told("tiny", knobs.many)
    larger_few, larger_many = told("small", knobs.larger_few or knobs.few), told("small", knobs.many)
    return {
        "larger behind with few by": few - larger_few,
        "larger ahead with many by": larger_many - many,
        "smaller with few": few,
        "smaller with many": many,
    }


ORDERS = ("few, then many", "many, then few", "few, then few")


@dataclass(frozen=True)
class FineTuningKnobs:
    data: str = option("digits", IMAGES)
    order: str = option("few, then many", "What is trained on, and what is then fine-tuned on", choices=ORDERS)
    few: int = option(FEW, "Images of the small set.", minimum=10, maximum=1_000_000)
    many: int = option(MANY - FEW, "Images of the large set.", minimum=10, maximum=1_000_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@cache
def read_after_tuning(data: str, network: str, order: str, few: int, many: int, seed: int) -> tuple[float, float]:
    """The share of held-out images told right after the first training, and after fine-tuning."""
    import torch

    from pellucid.training.rng import torch_rng

    images = read_image_tensors(data)
    drawn = torch.randperm(len(images.train), generator=torch_rng(seed, 0, "examples"))
    sets = {"few": drawn[:few], "many": drawn[few : few + many]}
    first, second = (sets[name] for name in order.split(", then "))
    model = build_reader(network, "small", images.shape, seed)
    train_reader(model, images.train[first], images.classes[first], seed, STEPS, RATE)
    tuned = copy.deepcopy(model)
    train_reader(tuned, images.train[second], images.classes[second], seed + 1, TUNED_STEPS, TUNED_RATE)
    before, after = (score_reader(one, images.held, images.truths)[0] for one in (model, tuned))
    return before, after


def measure_fine_tuning(knobs: FineTuningKnobs) -> Numbers:
    """By how much the CNN is ahead when both were trained on few images, and after both trainings."""
    cnn, vit = (
        read_after_tuning(knobs.data, name, knobs.order, knobs.few, knobs.many, knobs.seed) for name in ("cnn", "vit")
    )
    gap = measure_contest(ContestKnobs(knobs.data, knobs.few, seed=knobs.seed))["CNN ahead by"]
    return {
        "gap that is left": (cnn[1] - vit[1]),
        "gap with few": gap,
        "CNN": cnn[1],
        "ViT": vit[1],
        "ViT before fine-tuning": vit[0],
    }


@dataclass(frozen=True)
class SetSizeKnobs:
    counted: str = option("train", "Parts of ImageNet-1k that count", choices=("train", "all parts"))

    def __post_init__(self) -> None:
        check_options(self)


def count_image_sets(knobs: SetSizeKnobs) -> Numbers:
    """The images of published sets, in millions."""
    whole = sum(IMAGENET_1K.values())
    sizes = {**SET_SIZES, "ImageNet-1k": whole} if knobs.counted == "all parts" else SET_SIZES
    return {f"{name}, millions": n / 1e6 for name, n in sizes.items()}


@dataclass(frozen=True)
class SubsetKnobs:
    of: str = option("ImageNet-1k", "The set that it is said to be taken from", choices=tuple(SET_SIZES))

    def __post_init__(self) -> None:
        check_options(self)


def measure_subset(knobs: SubsetKnobs) -> Numbers:
    """How many images there are to take nine million from; and what the two networks compute, as papers give it."""
    from pellucid.models.catalogue import find_published

    vit, resnet = find_published("ViT-B/32"), find_published("ResNet-50")
    assert vit
    assert resnet
    return {
        "images to take it from": float(SET_SIZES[knobs.of]),
        "images of the subset": float(SUBSET),
        "FLOPs of ViT-B/32 over ResNet-50": vit.multiply_adds / resnet.multiply_adds,
        "parameters of ViT-B/32 over ResNet-50": vit.parameters / resnet.parameters,
    }


def count_published(knobs: SubsetKnobs) -> Numbers:
    """By counting what our ViT-B/32 and ResNet-50 have, and compute of one image."""
    import torch

    from pellucid.claims.sizes_and_latency import count_flops
    from pellucid.models.examples.published import PublishedViT, ResNet50, example_pictures

    with torch.device("meta"):
        both = PublishedViT(patch=32, width=768, depth=12, n_heads=12), ResNet50().eval()
    flops = [count_flops(partial(model, example_pictures())) for model in both]
    parameters = [sum([one.numel() for one in model.parameters()]) for model in both]
    return {
        "FLOPs of ViT-B/32 over ResNet-50": flops[0] / flops[1],
        "parameters of ViT-B/32 over ResNet-50": parameters[0] / parameters[1],
    }


BY_DATA, SMALL_SETS, LARGE_SETS = "homework 1.5d", "homework 1.5d.1", "homework 1.5d.3"

FAMILY = ClaimFamily(
    name="vits-and-cnns",
    title="Vision transformers beside CNNs, by the number of images",
    changed="the networks and sizes of this family were chosen after a trial with one seed",
    claims=(
        Claim(
            id="cnn-wins-on-small-data",
            says="with few images a CNN tells more of them right than a vision transformer",
            where=SMALL_SETS,
            kind="training",
            measure=measure_contest,
            decides="CNN ahead by",
            margin=lambda seen: seen["CNN ahead by"],
            rule="trained on 100 digits, it tells more of the held-out ones",
            knobs=ContestKnobs,
            control={"vit_examples": MANY},
            seeds=5,
        ),
        Claim(
            id="vit-overfits-more",
            says="with few images a vision transformer overfits more than a CNN",
            where=BY_DATA,
            kind="training",
            measure=measure_contest,
            decides="ViT, loss rises by",
            margin=lambda seen: seen["ViT, loss rises by"] - seen["CNN, loss rises by"],
            rule="trained on 100 digits, its loss rises further from train to held-out ones",
            changed="told by the loss and no longer by the share told right, for of train both networks tell "
            "everything right",
            knobs=ContestKnobs,
            control={"vit_examples": MANY},
            seeds=5,
        ),
        Claim(
            id="gap-narrows-with-data",
            says="with more images a vision transformer comes nearer to a CNN",
            where="homework 1.5d.2",
            kind="training",
            measure=measure_gap_by_examples,
            decides="gap is smaller by",
            margin=lambda seen: seen["gap is smaller by"],
            rule="the CNN is less far ahead with 1,400 digits than with 100",
            knobs=GapKnobs,
            control={"many": 50},
            seeds=5,
        ),
        Claim(
            id="vit-surpasses-cnn-with-large-data",
            says="with enough images a vision transformer overtakes a CNN",
            where=LARGE_SETS,
            kind="training",
            measure=measure_contest,
            decides="CNN ahead by",
            margin=lambda seen: -seen["CNN ahead by"],
            rule="at some number of digits, up to the 1,400 that there are, it tells more of the held-out ones",
            knobs=LargeContestKnobs,
            control={"examples": FEW, "vit_examples": MANY},
            search=Search("examples", 50, MANY, n_values=4, is_log=True),
            seeds=5,
            other_reading="the hundreds of millions of images of which it is said are not here",
        ),
        Claim(
            id="inductive-bias-explains-gap",
            says="a CNN is ahead because it knows what is near to what, and looks for the same everywhere",
            where=BY_DATA,
            kind="training",
            measure=measure_gap_without_neighbours,
            decides="ahead on scrambled images by",
            margin=lambda seen: seen["ahead by"] / 2 - seen["ahead on scrambled images by"],
            rule="where all pixels are scrambled, so that nearness tells nothing, less than half of its lead is left",
            changed="ten seeds, since five left it open",
            knobs=ScrambledKnobs,
            control={"scrambled": "none"},
            seeds=10,
            other_reading="about half of the lead stays where nothing is near to anything: it has other reasons too",
        ),
        Claim(
            id="larger-vit-worse-on-imagenet",
            says="with few images a larger vision transformer does worse than a smaller one, and with many better",
            where="homework 1.5d.1/2",
            kind="training",
            measure=measure_larger_vit,
            decides="larger behind with few by",
            margin=lambda seen: min(seen["larger behind with few by"], seen["larger ahead with many by"]),
            rule="the one with four times the parameters tells fewer held-out digits after 100 of them, and more after "
            "1,400",
            changed="both halves of what is said are asked, worse with few images and better with many",
            knobs=LargerViTKnobs,
            control={"larger_few": 20},
            seeds=5,
            other_reading="ImageNet, ImageNet-21k and JFT-300M, of which it is said, are not here",
        ),
        Claim(
            id="fine-tuned-on-imagenet-21k",
            says="fine-tuned on a larger set, a vision transformer closes much of its gap to CNNs",
            where="homework 1.5d.2",
            kind="training",
            measure=measure_fine_tuning,
            decides="gap that is left",
            margin=lambda seen: seen["gap with few"] / 2 - seen["gap that is left"],
            rule="trained on 100 digits and then on 1,300 others, it is behind by less than half of what it was",
            changed="20 seeds, since five left it open",
            knobs=FineTuningKnobs,
            control={"order": "few, then few"},
            seeds=20,
            other_reading="in the paper the larger set comes first: pre-trained on it, and fine-tuned on the smaller",
        ),
        Claim(
            id="nine-million-subset-heading",
            stated="9,000,000 of its images",
            says="on a subset of nine million images of ImageNet-1k ViT-B/32 does much worse than ResNet-50",
            where=SMALL_SETS,
            kind="arithmetic",
            measure=measure_subset,
            decides="images to take it from",
            margin=lambda seen: seen["images to take it from"] / seen["images of the subset"] - 1,
            rule="the set has nine million images to take",
            knobs=SubsetKnobs,
            control={"of": "JFT-300M"},
            second=count_published,
            tolerance=0.02,
            other_reading="the subset is one of JFT-300M, whose images nobody outside has; that both networks compute "
            "about as much is so, though one has three and a half times the parameters",
        ),
        Claim(
            id="dataset-sizes",
            says="ImageNet-1k has 1.3 million images, ImageNet-21k 14 million and JFT 300 million",
            where=BY_DATA,
            kind="arithmetic",
            measure=count_image_sets,
            decides="ImageNet-1k, millions",
            margin=lambda seen: min(
                closeness(seen["ImageNet-1k, millions"], 1.3, 1),
                closeness(seen["ImageNet-21k, millions"], 14, 0),
                closeness(seen["JFT-300M, millions"] / 100, 3, 0),
            ),
            rule="the counts that their authors give come to these numbers when they are rounded",
            knobs=SetSizeKnobs,
            control={"counted": "all parts"},
            other_reading="with dev and test ImageNet-1k has 1.4 million",
        ),
    ),
)
