"""Tokenizers of models of many languages, from fairseq: mBART, mBART-50, M2M100, NLLB.

One SentencePiece model for all; a piece says which language a text is in.
"""

from pathlib import Path
from typing import Any

from glassformer.data import AnyTokenizer, ForeignSettings, ForeignTokenizer
from glassformer.data.cutting import SentencePieces
from glassformer.data.foreign import SOURCE, TARGET, by_number
from glassformer.interop.files import inside, read_bytes, read_json, read_numbers, write_json
from glassformer.interop.pieces import models_of
from glassformer.model import ModelConfig

MODEL = "sentencepiece.bpe.model"
FIRST = ("<s>", "<pad>", "</s>", "<unk>")
"""fairseq's first tokens; SentencePiece's own first three are left out, so that its others move up by one."""
MBART_LANGUAGES = [
    *("ar_AR", "cs_CZ", "de_DE", "en_XX", "es_XX", "et_EE", "fi_FI", "fr_XX", "gu_IN", "hi_IN", "it_IT", "ja_XX"),
    *("kk_KZ", "ko_KR", "lt_LT", "lv_LV", "my_MM", "ne_NP", "nl_XX", "ro_RO", "ru_RU", "si_LK", "tr_TR", "vi_VN"),
    "zh_CN",
]
"""In the order of their numbers: the first mBART has no file that says it."""


def multilingual_tokenizer(directory: Path, config: ModelConfig) -> ForeignTokenizer | None:
    """From sentencepiece.bpe.model, with vocab.json where there is one; None where there is none."""
    if not (directory / MODEL).exists():
        return None
    model = read_bytes(inside(directory, MODEL))
    about = _about(directory)
    codes = _codes(about) or MBART_LANGUAGES
    if (directory / "vocab.json").exists():
        numbers = read_numbers(directory, "vocab.json")
        end = len(numbers)
    else:
        pieces = [*FIRST, *SentencePieces(model).pieces()[3:]]
        numbers = {piece: number for number, piece in reversed(list(enumerate(pieces)))}
        end = len(pieces)
    numbers |= {code: number for number, code in enumerate(codes, end) if code not in numbers}
    first_mbart = about.get("tokenizer_class") in ("MBartTokenizer", "MBartTokenizerFast") or not _codes(about)
    settings = ForeignSettings(
        cut="sentencepiece",
        joint=True,
        before_source=[] if first_mbart else [SOURCE],
        after_source=["</s>", SOURCE] if first_mbart else ["</s>"],
        before_target=[] if first_mbart else [TARGET],
        after_target=["</s>"],
        languages={code.strip("_"): code for code in codes},
        source_language=_known(about.get("src_lang"), codes),
        target_language=_known(about.get("tgt_lang"), codes),
        hidden=["<s>", "<pad>", "<mask>"],
    )
    return ForeignTokenizer.joint(settings, by_number(numbers, config.vocab_size), model)


def write_multilingual_tokenizer(tokenizer: AnyTokenizer, directory: Path, name: str) -> None:
    """The same files again."""
    if not isinstance(tokenizer, ForeignTokenizer) or not tokenizer.settings.languages:
        return
    settings = tokenizer.settings
    (directory / MODEL).write_bytes(models_of(tokenizer)["source"])
    if name == "M2M100Tokenizer" and any(code.startswith("__") for code in settings.languages.values()):
        codes = set(settings.languages.values())
        pieces = [
            piece
            for piece in tokenizer.pieces(range(tokenizer.vocab_size("source")), "source")
            if piece not in codes and not piece.startswith("<no. ")
        ]
        write_json(directory / "vocab.json", {piece: number for number, piece in enumerate(pieces)})
    else:
        name = "NllbTokenizer" if name == "M2M100Tokenizer" else name
    about: dict[str, Any] = {"tokenizer_class": name, "additional_special_tokens": list(settings.languages.values())}
    about |= {"src_lang": settings.source_language, "tgt_lang": settings.target_language}
    write_json(directory / "tokenizer_config.json", {key: value for key, value in about.items() if value})


def _about(directory: Path) -> dict[str, Any]:
    """What the tokenizer's own settings say; those of special tokens under them."""
    found: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (directory / name).exists():
            more = read_json(inside(directory, name))
            found |= {key: value for key, value in more.items() if value}
    return found


def _codes(about: dict[str, Any]) -> list[str]:
    """The pieces of languages, in the order of their numbers."""
    more = about.get("additional_special_tokens") or about.get("extra_special_tokens") or []
    words = [word.get("content") if isinstance(word, dict) else word for word in more] if isinstance(more, list) else []
    return [word for word in words if isinstance(word, str) and word != "<mask>"]


def _known(code: Any, codes: list[str]) -> str | None:
    names = {name.strip("_") for name in codes}
    return code.strip("_") if isinstance(code, str) and code.strip("_") in names else None
