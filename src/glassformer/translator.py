"""Text in, text out: a model, its tokenizer and a search. Knows nothing of how the model came to be."""

import os
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch

from glassformer.data import Tokenizer
from glassformer.decoding import Beam, Hypothesis, search
from glassformer.errors import DirectoryError
from glassformer.model import Transformer, load_model

BATCH_TOKENS = 8_000  # source and target positions searched at once, beams included
BUILT_IN = ("street",)


class Translator:
    """Translates text with a model that is ready to run."""

    def __init__(self, model: Transformer, tokenizer: Tokenizer, beam: Beam | None = None) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.beam = beam or Beam()

    @classmethod
    def load(cls, path: str | os.PathLike[str], beam: Beam | None = None) -> "Translator":
        """From a model directory, a run directory (then its best model) or the name of a built-in model."""
        directory = find_model(path)
        if not (directory / "tokenizer").is_dir():
            raise DirectoryError(f"{directory} has no tokenizer beside its model: it takes ids, not text.")
        return cls(load_model(directory), Tokenizer.read(directory / "tokenizer"), beam)

    def __call__(self, text: str) -> str:
        """The translation of one sentence."""
        return self.translate([text])[0]

    def translate(self, texts: Sequence[str]) -> list[str]:
        """One translation a text, in order; a blank text stays blank, and the model is not asked."""
        asked = [i for i, text in enumerate(texts) if text.strip()]
        found = self.search([self.tokenizer.encode(texts[i], "source") for i in asked])
        translations = [""] * len(texts)
        for i, hypotheses in zip(asked, found, strict=True):
            translations[i] = self.tokenizer.decode(hypotheses[0].tokens)
        return translations

    def search(self, sources: Sequence[list[int]]) -> list[list[Hypothesis]]:
        """The hypotheses of each source, in order."""
        found: list[list[Hypothesis]] = [[] for _ in sources]
        for batch in alike(sources, BATCH_TOKENS // self.beam.size):
            for i, hypotheses in zip(batch, self._search_batch([sources[i] for i in batch]), strict=True):
                found[i] = hypotheses
        return found

    def _search_batch(self, sources: list[list[int]]) -> list[list[Hypothesis]]:
        ids = np.full((len(sources), max(map(len, sources))), self.model.config.pad_id, dtype=np.int64)
        for row, source in zip(ids, sources, strict=True):
            row[: len(source)] = source
        device = self.model.output_projection.weight.device
        return search(self.model, torch.from_numpy(ids).to(device), self.beam)


def alike(sources: Sequence[list[int]], budget: int) -> Iterator[list[int]]:
    """The numbers of all sources in batches of like length, longest first, each within a budget of positions."""
    order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
    start = 0
    while start < len(order):
        count = max(1, budget // (2 * len(sources[order[start]])))  # the target will be about as long again
        yield order[start : start + count]
        start += count


def find_model(path: str | os.PathLike[str]) -> Path:
    """The model directory meant: itself, a run's best model, or a built-in one."""
    directory = Path(path)
    if (directory / "config.json").exists():
        return directory
    if directory.is_dir():
        for kind in ("best", "step"):
            if found := numbered(directory, kind):
                return found[-1]
        raise DirectoryError(f"{directory} holds no model: neither config.json nor best-... or step-... is in it.")
    if str(path) in BUILT_IN:
        return Path(str(files("glassformer") / "models" / str(path)))
    raise DirectoryError(f"There is no directory {directory}, and no built-in model of that name ({BUILT_IN[0]} is).")


def numbered(directory: Path, kind: str) -> list[Path]:
    """`kind-1`, `kind-2`, ... of a run directory, by their number."""
    found = [path for path in directory.glob(f"{kind}-*") if path.name.removeprefix(f"{kind}-").isdigit()]
    return sorted(found, key=lambda path: int(path.name.removeprefix(f"{kind}-")))
