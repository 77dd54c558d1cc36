"""Parts of a tokenizer, for writing it in another program's tokenizer files."""

from pathlib import Path

from glassformer.data import AnyTokenizer, Tokenizer
from glassformer.data.tokenizer import SIDES, Side
from glassformer.interop.untrusted_files import write_json


def segmentation_models(tokenizer: AnyTokenizer) -> dict[Side, bytes]:
    """The serialised segmentation model of source and target."""
    files = tokenizer.files()
    return {side: files[f"{side}.model" if f"{side}.model" in files else "joint.model"] for side in SIDES}


def sentencepiece_models(tokenizer: AnyTokenizer) -> dict[Side, bytes] | None:
    """The SentencePiece models of both sides; None if the tokenizer uses another kind of segmentation."""
    is_spm = isinstance(tokenizer, Tokenizer) or tokenizer.settings.cut == "sentencepiece"
    return segmentation_models(tokenizer) if is_spm else None


def write_vocab_json(tokenizer: AnyTokenizer, side: Side, path: Path) -> None:
    """Write the vocabulary as JSON: piece to id."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size(side)), side)
    write_json(path, {piece: i for i, piece in reversed(list(enumerate(pieces)))})
