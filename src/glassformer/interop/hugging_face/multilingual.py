"""Tokenizers of models of many languages, from fairseq: mBART, mBART-50, M2M100, NLLB.

One SentencePiece model for all; a piece says which language a text is in.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glassformer.data import AnyTokenizer, ForeignSettings, ForeignTokenizer
from glassformer.data.foreign_tokenizer import SOURCE, TARGET, by_number
from glassformer.data.subword_segmentation import SentencePieceSegmenter
from glassformer.interop.bounded_files import read_numbers, read_spm
from glassformer.interop.fairseq_names import FIRST
from glassformer.interop.tokenizer_files import models_of
from glassformer.interop.untrusted_files import inside, read_json, write_json
from glassformer.model import ModelConfig

MODEL, MASK = "sentencepiece.bpe.model", "<mask>"
MBART_LANGUAGES = [
    *("ar_AR", "cs_CZ", "de_DE", "en_XX", "es_XX", "et_EE", "fi_FI", "fr_XX", "gu_IN", "hi_IN", "it_IT", "ja_XX"),
    *("kk_KZ", "ko_KR", "lt_LT", "lv_LV", "my_MM", "ne_NP", "nl_XX", "ro_RO", "ru_RU", "si_LK", "tr_TR", "vi_VN"),
    "zh_CN",
]
"""In the order of their numbers: the first mBART has no file that says it."""


def multilingual_tokenizer(directory: Path, config: ModelConfig, unsaid: Sequence[str] = ()) -> ForeignTokenizer | None:
    """From sentencepiece.bpe.model, with vocab.json where there is one; None where there is none.

    `unsaid`: the pieces of languages, where no file says them.
    """
    about = read_about(directory)
    codes = codes_of(about) or list(unsaid)
    if not (directory / MODEL).exists() or not codes:
        return None
    model = read_spm(inside(directory, MODEL), config.vocab_size)
    if (directory / "vocab.json").exists():
        numbers = read_numbers(directory, "vocab.json", config.vocab_size)
        end = len(numbers)
    else:
        pieces = [*FIRST, *SentencePieceSegmenter(model).pieces()[3:]]  # which has three of its own before them
        numbers = {piece: number for number, piece in reversed(list(enumerate(pieces)))}
        end = len(pieces)
        if end + len(codes) < config.vocab_size:
            numbers[MASK] = end + len(codes)
    numbers |= {code: number for number, code in enumerate(codes, end) if code not in numbers}
    vocabulary = by_number(numbers, config.vocab_size)
    own = {"cut": "sentencepiece", "hidden": ["<s>", "<pad>", MASK]}
    settings = settings_of_many(about, codes, vocabulary, config, own)
    return ForeignTokenizer.joint(settings, vocabulary, model)


def settings_of_many(
    about: dict[str, Any], codes: list[str], vocabulary: Sequence[str], config: ModelConfig, own: dict[str, Any]
) -> ForeignSettings:
    """Where texts say their language, as each of these programs has it; `own`: the settings that are left."""
    first_mbart = about.get("tokenizer_class") in ("MBartTokenizer", "MBartTokenizerFast") or not codes_of(about)
    behind = first_mbart or about.get("legacy_behaviour") is True  # where a source says its language
    begun = vocabulary[config.bos_id] if first_mbart else about.get("tgt_lang")  # the first mBART starts from it
    return ForeignSettings(
        joint=True,
        before_source=[] if behind else [SOURCE],
        after_source=["</s>", SOURCE] if behind else ["</s>"],
        before_target=[] if first_mbart else [TARGET],
        after_target=["</s>"],
        languages={code.strip("_"): code for code in codes},
        source_language=_known(about.get("src_lang"), codes),
        target_language=_known(begun, codes),
        **own,
    )


def write_multilingual_tokenizer(tokenizer: AnyTokenizer, directory: Path, name: str) -> None:
    """The same files again; `name`: what their class is called, of M2M100 or mBART-50 or one much like it."""
    if not isinstance(tokenizer, ForeignTokenizer) or not tokenizer.settings.languages:
        return
    settings = tokenizer.settings
    codes = list(settings.languages.values())
    numbered = dict(enumerate(tokenizer.pieces(range(tokenizer.vocab_size("source")), "source")))
    about: dict[str, Any] = {"src_lang": settings.source_language, "tgt_lang": settings.target_language}
    if name == "M2M100Tokenizer" and codes[0].startswith("__"):
        end = min(number for number, piece in numbered.items() if piece in codes)
        write_json(directory / "vocab.json", {numbered[number]: number for number in range(end)})
        about["language_codes"] = "m2m100" if len(codes) > 8 else "wmt21"  # lists that their program knows
    elif name == "M2M100Tokenizer":
        name, about["legacy_behaviour"] = "NllbTokenizer", SOURCE in settings.after_source
        special = {*FIRST, *codes, MASK}  # else theirs puts <mask> before the languages, which then move up by one
        about["added_tokens_decoder"] = {
            str(number): {"content": piece, "special": True, "normalized": False, "lstrip": piece == MASK}
            for number, piece in numbered.items()
            if piece in special
        }
    elif SOURCE in settings.after_source:
        name = "MBartTokenizer"
    (directory / MODEL).write_bytes(models_of(tokenizer)["source"])
    about |= {"tokenizer_class": name, "additional_special_tokens": codes}
    write_json(directory / "tokenizer_config.json", {key: value for key, value in about.items() if value})


def read_about(directory: Path) -> dict[str, Any]:
    """What the tokenizer's own settings say; those of special tokens under them."""
    found: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (directory / name).exists():
            more = read_json(inside(directory, name))
            found |= {key: value for key, value in more.items() if value}
    return found


def codes_of(about: dict[str, Any]) -> list[str]:
    """The pieces of languages, in the order of their numbers."""
    more = about.get("additional_special_tokens") or about.get("extra_special_tokens") or []
    words = [word.get("content") if isinstance(word, dict) else word for word in more] if isinstance(more, list) else []
    return [word for word in words if isinstance(word, str) and word != MASK]


def _known(code: Any, codes: list[str]) -> str | None:
    names = {name.strip("_") for name in codes}
    return code.strip("_") if isinstance(code, str) and code.strip("_") in names else None
