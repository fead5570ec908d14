"""How images are measured for the figures of the vision transformer: cut into patches, or read by a run's network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.cli.measured import Asked, Measured, named_run, trained_for_it
from pellucid.errors import PellucidError, quoted

if TYPE_CHECKING:
    import numpy

    from pellucid.data.examples import ImagePreparation
    from pellucid.models.examples.vit import ViT
    from pellucid.training.asking import Answering

ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")
FITTED = 96  # pixels of the side to which a picture of any size is fitted
# The network that is trained where no run is given: two layers of two heads, and it reads 9 digits of 10 right.
SHOWN: dict[str, Any] = {"model": "vit", "kind": "images", "size": "tiny", "steps": 400, "training": {"threads": 1}}
PATCHES = 4  # on a side, where nothing else is asked for


def _patches(asked: Asked) -> Measured:
    from pellucid.data.readers.pictures import colours_of
    from pellucid.records import PatchesShown

    pixels, said = _picture(asked)
    height, width = pixels.shape[:2]
    patch = max(1, min(height, width) // PATCHES) if asked.patch is None else asked.patch
    if height % patch or width % patch:
        sides = [side for side in range(1, min(height, width) + 1) if height % side == 0 and width % side == 0]
        near = min(sides, key=lambda side: (abs(side - patch), side))
        raise PellucidError(
            f"patches of {patch} pixels do not fill {width}×{height}", fix=f"The nearest side that does is {near}"
        )
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    return Measured(PatchesShown(said, colours_of(pixels), patch, channels), ())


def _picture(asked: Asked) -> tuple[numpy.ndarray[Any, Any], str]:
    """One image as numbers: of a file, or the first of a set."""
    source = asked.source or "digits"
    if Path(source).suffix.lower() in ENDINGS and Path(source).is_file():
        return _fitted(Path(source)), f"{quoted(Path(source).name)}, fitted to {FITTED}×{FITTED}"
    from pellucid.data import open_data, require_kind
    from pellucid.data.kinds import ImagesData, PixelsData

    data = open_data(source, kind=asked.kind, encoding=asked.encoding)
    require_kind(data, "images")
    if isinstance(data, PixelsData):
        return data.pixels[0], f"The first image of {data.name}, a {data.classes[data.labels[0]]}"
    assert isinstance(data, ImagesData)
    first = data.files[0]
    return _fitted(first.path), f"The first image of {data.name}, a {first.label}, fitted to {FITTED}×{FITTED}"


def _fitted(path: Path) -> numpy.ndarray[Any, Any]:
    from pellucid.data.readers.pictures import decode_image, find_trouble

    content = path.read_bytes()
    *_, trouble = find_trouble(content)
    if trouble:
        raise PellucidError(f"{quoted(path.name)} cannot be read: {trouble}", fix="Give another image")
    return decode_image(content, "rgb", (FITTED, FITTED))


def _patch_positions(asked: Asked) -> Measured:
    with _vit(asked) as (run, said):
        from pellucid.training.looking_at_patches import patch_positions

        return Measured(patch_positions(_awake(run), _called(run)), (said,))


def _patch_attention(asked: Asked) -> Measured:
    from pellucid.data.examples import ImagePreparation

    with _vit(asked) as (run, said):
        preparation = run.preparation
        assert isinstance(preparation, ImagePreparation)
        if asked.read is None:
            pixels, where, truth = _first_of(run, preparation)
        else:
            pixels, where, truth = preparation.pixels_of([Path(asked.read)])[0], quoted(Path(asked.read).name), ""
        from pellucid.training.looking_at_patches import patch_attention

        seen = patch_attention(_awake(run), preparation, pixels, f"{_called(run)}, reads {where}", truth)
        return Measured(seen, (said,))


@contextmanager
def _vit(asked: Asked) -> Iterator[tuple[Answering, str]]:
    """The run that was named, or one that is trained for it, and what is said of it."""
    from pellucid.training.asking import answering_run

    if asked.source is None:
        with trained_for_it(SHOWN, asked.chosen_seed, data="digits") as (_, folder):
            seed = asked.chosen_seed
            yield answering_run(folder), f"no run was named: a vit of digits, {SHOWN['steps']} steps, seed {seed}"
        return
    folder = named_run(asked)
    from pellucid.runs import read_record

    record = read_record(folder)
    if record.get("model") != "vit":
        raise PellucidError(
            f"{folder.name} is a run of {record.get('model')}, and patches are read by vit",
            fix="Name a run of vit, or none",
        )
    yield answering_run(folder), f"{folder.name}: vit on {record['data']['said']}"


def _awake(run: Answering) -> ViT:
    """In double precision, so that what is drawn does not depend on the number of threads."""
    from pellucid.models.examples.vit import ViT
    from pellucid.training.predicting import awakened

    model = awakened(run).double()
    assert isinstance(model, ViT)
    return model


def _called(run: Answering) -> str:
    config, source = run.record["network"], run.record["data"]["source"]
    return f"A vit of {config['parameters']:,} parameters, trained on {source}"


def _first_of(run: Answering, preparation: ImagePreparation) -> tuple[numpy.ndarray[Any, Any], str, str]:
    """The first image of the run's data as its network reads it, what it is, and its class."""
    from pellucid.data.examples.image_preparation import converted
    from pellucid.data.kinds import ImagesData, PixelsData
    from pellucid.training.opening import DataWishes, read
    from pellucid.training.sources import found_again

    reading = dict(run.record["reading"])
    reading["source"] = found_again(run.path, str(reading["source"]), str(run.record["data"]["fingerprint"]))
    data = read(DataWishes(**reading))
    where = f"the first image of {data.name}"
    if isinstance(data, PixelsData):
        pixels = converted(data.pixels[:1], preparation.size, preparation.mode)[0]
        return pixels, where, data.classes[data.labels[0]]
    assert isinstance(data, ImagesData)
    return preparation.pixels_of([data.files[0].path])[0], where, data.files[0].label


MEASURES: dict[str, Callable[[Asked], Measured]] = {
    "PatchesShown": _patches,
    "PatchPositions": _patch_positions,
    "PatchAttention": _patch_attention,
}
