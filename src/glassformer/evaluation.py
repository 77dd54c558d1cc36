"""Scores of translations, by sacrebleu, each with the signature that says which score it is."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from glassformer.errors import InputError

Tokenization = Literal["13a", "none", "char", "intl", "zh", "ja-mecab", "ko-mecab", "flores200"]


@dataclass(frozen=True)
class Scores:
    """What sacrebleu says of some translations."""

    bleu: float
    chrf: float
    signature: str
    """Of BLEU: reference count, case, tokenization, smoothing and version."""
    chrf_signature: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def score(translations: Sequence[str], references: Sequence[str], tokenize: Tokenization = "13a") -> Scores:
    """Corpus BLEU and chrF. `tokenize="none"` is for text that is already tokens with spaces between them."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    if len(translations) != len(references) or not references:
        raise InputError(f"There are {len(translations)} translations for {len(references)} references.")
    # `force`: sacrebleu warns of text that looks tokenized; that is what "none" is for.
    bleu, chrf = BLEU(tokenize=tokenize, force=True), CHRF()
    bleu_score = bleu.corpus_score(list(translations), [list(references)]).score
    chrf_score = chrf.corpus_score(list(translations), [list(references)]).score
    return Scores(bleu_score, chrf_score, str(bleu.get_signature()), str(chrf.get_signature()))
