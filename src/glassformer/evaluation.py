"""Scores of translations, by sacrebleu, each with the signature that says which score it is."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from glassformer.errors import InputError

if TYPE_CHECKING:
    from sacrebleu.significance import Result

Tokenization = Literal["13a", "none", "char", "intl", "zh", "ja-mecab", "ko-mecab", "flores200"]
TOKENIZATIONS = get_args(Tokenization)


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

    _check(translations, references)
    # `force`: sacrebleu warns of text that looks tokenized; that is what "none" is for.
    bleu, chrf = BLEU(tokenize=tokenize, force=True), CHRF()
    bleu_score = bleu.corpus_score(list(translations), [list(references)]).score
    chrf_score = chrf.corpus_score(list(translations), [list(references)]).score
    return Scores(bleu_score, chrf_score, str(bleu.get_signature()), str(chrf.get_signature()))


@dataclass(frozen=True)
class Measured:
    """One metric's verdict on some translations."""

    metric: str
    score: float
    signature: str
    interval: float | None = None
    """Half of the 95 % interval, by bootstrap; only where two are compared."""
    p_value: float | None = None
    """How often chance alone would part the two as far; only of the second of two."""


def measure(
    translations: Sequence[Sequence[str]], references: Sequence[str], tokenize: Tokenization = "13a", lc: bool = False
) -> list[list[Measured]]:
    """BLEU, chrF and TER of one system's translations, or of two systems' with a paired bootstrap of their difference.

    The first is the baseline that the second's p-values speak of.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER
    from sacrebleu.significance import PairedTest

    for own in translations:
        _check(own, references)
    metrics = {"BLEU": BLEU(tokenize=tokenize, lowercase=lc, force=True), "chrF": CHRF(lowercase=lc)}
    metrics["TER"] = TER(case_sensitive=not lc)
    if len(translations) == 1:
        [own] = translations
        scores = {name: metric.corpus_score(list(own), [list(references)]).score for name, metric in metrics.items()}
        return [[Measured(name, scores[name], str(metric.get_signature())) for name, metric in metrics.items()]]
    systems: list[tuple[str, Sequence[str]]] = [(str(number), own) for number, own in enumerate(translations)]
    signatures, results = PairedTest(systems, metrics, [list(references)], test_type="bs", n_samples=1000)()
    measured: list[list[Measured]] = [[] for _ in systems]
    for name, (found, signature) in zip(metrics, signatures.items(), strict=True):  # it says chrF2 where we say chrF
        baseline, *_ = own_results = cast("list[Result]", results[found])
        for system, result in zip(measured, own_results, strict=True):
            system.append(_measured(name, str(signature), result, baseline))
    return measured


def _measured(metric: str, signature: str, result: "Result", baseline: "Result") -> Measured:
    interval = None if result.ci is None else float(result.ci)
    p_value = None if result.p_value is None else float(result.p_value)
    if p_value is not None and result.score == baseline.score:
        p_value = 1.0  # sacrebleu counts samples beyond the difference, and beyond 0 there are none: it would say 0.001
    return Measured(metric, float(result.score), signature, interval, p_value)


def sentence_chrf(translation: str, reference: str) -> float:
    """chrF of one sentence, as sacrebleu's; a text's character runs are counted once, however often it is compared."""
    precision = recall = orders = 0.0
    for ours, theirs in zip(_runs(translation), _runs(reference), strict=True):
        if ours and theirs:
            matches = (ours & theirs).total()
            precision += matches / ours.total()
            recall += matches / theirs.total()
            orders += 1
    if not precision + recall:
        return 0.0
    return 100 * 5 * precision * recall / (4 * precision + recall) / orders  # recall counts twice: beta = 2


@lru_cache(maxsize=4096)
def _runs(text: str) -> list[Counter[str]]:
    """How often each run of one to six characters stands in a text, spaces left out."""
    text = "".join(text.split())
    return [Counter(text[i : i + size] for i in range(len(text) - size + 1)) for size in range(1, 7)]


def _check(translations: Sequence[str], references: Sequence[str]) -> None:
    if len(translations) != len(references) or not references:
        raise InputError(f"There are {len(translations)} translations for {len(references)} references.")
