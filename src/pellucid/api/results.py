"""Files that a verb writes: where they may stand, and written whole or not at all."""

from pathlib import Path

from pellucid.errors import PellucidError, did_you_mean, quoted

PICTURES = (".svg", ".png", ".html")


def require_output_path(path: Path, suffixes: tuple[str, ...] = PICTURES) -> None:
    """Refuse a path that cannot be written to, or that is not this kind of file, before any work is done."""
    if path.suffix.lower() not in suffixes:
        *some, last = suffixes
        ends = f"{', '.join(some)} or {last}" if some else last
        raise PellucidError(
            f"{quoted(str(path))} does not end in {ends}", fix=f"Call it {quoted(path.stem + suffixes[0])}"
        )
    folder = path.parent
    if not folder.is_dir():
        around = folder.parent
        beside = [one.name for one in around.iterdir() if one.is_dir()] if around.is_dir() else []
        raise PellucidError(
            f"there is no folder {quoted(str(folder))}",
            fix=did_you_mean(folder.name, beside, "Make it first", show=lambda one: quoted(str(around / one))),
        )
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise PellucidError(f"{quoted(str(path))} is not a regular file", fix="Choose another name")


def write_output(path: Path, content: str | bytes) -> None:
    """Put the content where the path says, so that no half-written file is ever seen."""
    from pellucid.runs.disk import write_whole

    try:
        write_whole(path, content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content)
    except OSError as error:
        raise PellucidError(
            f"{quoted(str(path))} could not be written: {error.strerror}", fix="Choose another folder"
        ) from error
