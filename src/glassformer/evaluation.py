"""Translation metrics by sacrebleu: BLEU, chrF and TER with their signatures, and significance tests."""

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
    """Corpus BLEU and chrF of a set of translations."""

    bleu: float
    chrf: float
    signature: str
    """sacrebleu's signature of BLEU: reference count, case, tokenization, smoothing and version."""
    chrf_signature: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def score(translations: Sequence[str], references: Sequence[str], tokenize: Tokenization = "13a") -> Scores:
    """Corpus BLEU and chrF of translations. `tokenize="none"` is for text that is already tokenized with spaces."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    _check(translations, references)
    # `force` turns off sacrebleu's warning about text that looks tokenized, which is what "none" is for.
    bleu, chrf = BLEU(tokenize=tokenize, force=True), CHRF()
    bleu_score = bleu.corpus_score(list(translations), [list(references)]).score
    chrf_score = chrf.corpus_score(list(translations), [list(references)]).score
    return Scores(bleu_score, chrf_score, str(bleu.get_signature()), str(chrf.get_signature()))


@dataclass(frozen=True)
class MetricScore:
    """The score of one system by one metric."""

    metric: str
    score: float
    signature: str
    interval: float | None = None
    """Half the width of the 95 % bootstrap confidence interval; only when two systems are compared."""
    p_value: float | None = None
    """Probability of a difference this large by chance; only for the second of two systems."""


def measure(
    translations: Sequence[Sequence[str]], references: Sequence[str], tokenize: Tokenization = "13a", lc: bool = False
) -> list[list[MetricScore]]:
    """BLEU, chrF and TER of one system's translations, or of two systems' with a paired bootstrap test.

    The first system is the baseline for the second's p-values.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER
    from sacrebleu.significance import PairedTest

    for texts in translations:
        _check(texts, references)
    metrics = {"BLEU": BLEU(tokenize=tokenize, lowercase=lc, force=True), "chrF": CHRF(lowercase=lc)}
    metrics["TER"] = TER(case_sensitive=not lc)
    if len(translations) == 1:
        [texts] = translations
        scores = {name: metric.corpus_score(list(texts), [list(references)]).score for name, metric in metrics.items()}
        return [[MetricScore(name, scores[name], str(metric.get_signature())) for name, metric in metrics.items()]]
    systems: list[tuple[str, Sequence[str]]] = [(str(number), texts) for number, texts in enumerate(translations)]
    signatures, results = PairedTest(systems, metrics, [list(references)], test_type="bs", n_samples=1000)()
    by_system: list[list[MetricScore]] = [[] for _ in systems]
    for name, (sacrebleu_name, signature) in zip(metrics, signatures.items(), strict=True):  # chrF is chrF2 there
        baseline, *_ = metric_results = cast("list[Result]", results[sacrebleu_name])
        for scores_of_system, result in zip(by_system, metric_results, strict=True):
            scores_of_system.append(_metric_score(name, str(signature), result, baseline))
    return by_system


def _metric_score(metric: str, signature: str, result: "Result", baseline: "Result") -> MetricScore:
    interval = None if result.ci is None else float(result.ci)
    p_value = None if result.p_value is None else float(result.p_value)
    if p_value is not None and result.score == baseline.score:
        p_value = 1.0  # sacrebleu counts samples beyond the difference; for a difference of 0 it would give 0.001
    return MetricScore(metric, float(result.score), signature, interval, p_value)


def sentence_chrf(translation: str, reference: str) -> float:
    """Sentence chrF, equal to sacrebleu's; the character n-grams of a text are counted only once."""
    precision = recall = orders = 0.0
    for ours, theirs in zip(_character_ngrams(translation), _character_ngrams(reference), strict=True):
        if ours and theirs:
            matches = (ours & theirs).total()
            precision += matches / ours.total()
            recall += matches / theirs.total()
            orders += 1
    if not precision + recall:
        return 0.0
    return 100 * 5 * precision * recall / (4 * precision + recall) / orders  # recall counts twice: beta = 2


@lru_cache(maxsize=4096)
def _character_ngrams(text: str) -> list[Counter[str]]:
    """Counts of the character n-grams of a text without spaces, for n from 1 to 6."""
    text = "".join(text.split())
    return [Counter(text[i : i + size] for i in range(len(text) - size + 1)) for size in range(1, 7)]


def _check(translations: Sequence[str], references: Sequence[str]) -> None:
    if isinstance(translations, str) or isinstance(references, str):
        raise InputError("Translations and references should be lists of texts: put a single text into a list.")
    if len(translations) != len(references) or not references:
        raise InputError(
            f"There are {len(translations)} translations for {len(references)} references; expected one per reference."
        )
