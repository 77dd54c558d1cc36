"""`glassformer street`: the built-in corpus as text files."""

from pathlib import Path
from typing import Annotated

import typer

TRAIN, DEV, TEST = 60_000, 500, 1_000


def street(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Directory for train.en, train.de, dev.en, ...")],
    train: Annotated[int, typer.Option(min=1, max=500_000, help="Sentences to learn from.")] = TRAIN,
) -> None:
    """Write the built-in corpus, English and German sentences made by a grammar, as text files."""
    write_street(out, train)
    typer.echo(f"{out} holds {train:,} pairs for training, {DEV:,} to watch it with and {TEST:,} to test it.")


def write_street(out: Path, train: int = TRAIN) -> dict[str, str]:
    """The files of all three parts, and their names as a run's data section has them; kept if they are there."""
    from glassformer.builtin.street import sentences

    out.mkdir(parents=True, exist_ok=True)
    names = {}
    for split, count, prefix in (("train", train, ""), ("dev", DEV, "dev_"), ("test", TEST, "test_")):
        pairs = list(sentences(split, count))  # type: ignore[arg-type]
        for side, language in (("source", "en"), ("target", "de")):
            path = out / f"{split}.{language}"
            text = "".join(f"{getattr(pair, side)}\n" for pair in pairs).encode()
            if not path.exists() or path.read_bytes() != text:
                path.write_bytes(text)
            names[f"{prefix}{side}"] = str(path)
    return names
