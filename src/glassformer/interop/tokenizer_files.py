"""What a tokenizer is made of, for those who write it in another program's files."""

from pathlib import Path

from glassformer.data import AnyTokenizer, Tokenizer
from glassformer.data.tokenizer import SIDES, Side
from glassformer.interop.untrusted_files import write_json


def models_of(tokenizer: AnyTokenizer) -> dict[Side, bytes]:
    """What cuts the text of each side."""
    files = tokenizer.files()
    return {side: files[f"{side}.model" if f"{side}.model" in files else "joint.model"] for side in SIDES}


def spm_models(tokenizer: AnyTokenizer) -> dict[Side, bytes] | None:
    """SentencePiece's models of both sides; None if it is another program that cuts."""
    is_spm = isinstance(tokenizer, Tokenizer) or tokenizer.settings.cut == "sentencepiece"
    return models_of(tokenizer) if is_spm else None


def write_numbers(tokenizer: AnyTokenizer, side: Side, path: Path) -> None:
    """The number of each piece as JSON."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size(side)), side)
    write_json(path, {piece: number for number, piece in reversed(list(enumerate(pieces)))})
