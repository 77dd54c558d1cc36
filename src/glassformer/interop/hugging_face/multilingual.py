"""Tokenizers of fairseq's multilingual models: mBART, mBART-50, M2M100, NLLB.

One SentencePiece model for all languages; a special piece marks the language of a text.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glassformer.data import AnyTokenizer, ImportedTokenizer, ImportedTokenizerSettings
from glassformer.data.imported_tokenizer import SOURCE, TARGET, pieces_by_id
from glassformer.data.subword_segmentation import SentencePieceSegmenter
from glassformer.interop.bounded_files import read_spm, read_vocab_json
from glassformer.interop.fairseq_names import SPECIAL_TOKENS
from glassformer.interop.tokenizer_files import segmentation_models
from glassformer.interop.untrusted_files import inside, read_json, write_json
from glassformer.model import ModelConfig

SPM_FILE, MASK = "sentencepiece.bpe.model", "<mask>"
MBART_LANGUAGES = [
    *("ar_AR", "cs_CZ", "de_DE", "en_XX", "es_XX", "et_EE", "fi_FI", "fr_XX", "gu_IN", "hi_IN", "it_IT", "ja_XX"),
    *("kk_KZ", "ko_KR", "lt_LT", "lv_LV", "my_MM", "ne_NP", "nl_XX", "ro_RO", "ru_RU", "si_LK", "tr_TR", "vi_VN"),
    "zh_CN",
]
"""Language codes of the original mBART in the order of their ids; it has no file that lists them."""


def multilingual_tokenizer(
    directory: Path, config: ModelConfig, default_codes: Sequence[str] = ()
) -> ImportedTokenizer | None:
    """Read a multilingual tokenizer: sentencepiece.bpe.model (None without it), and vocab.json if there is one.

    `default_codes`: the language pieces if no file lists them.
    """
    options = read_tokenizer_config(directory)
    codes = listed_tokens(options) or list(default_codes)
    if not (directory / SPM_FILE).exists() or not codes:
        return None
    model = read_spm(inside(directory, SPM_FILE), config.vocab_size)
    if (directory / "vocab.json").exists():
        ids = read_vocab_json(directory, "vocab.json", config.vocab_size)
        end = len(ids)
    else:
        # fairseq's special tokens replace the three of the SentencePiece model
        pieces = [*SPECIAL_TOKENS, *SentencePieceSegmenter(model).pieces()[3:]]
        ids = {piece: i for i, piece in reversed(list(enumerate(pieces)))}
        end = len(pieces)
        if end + len(codes) < config.vocab_size:
            ids[MASK] = end + len(codes)
    ids |= {code: i for i, code in enumerate(codes, end) if code not in ids}
    vocabulary = pieces_by_id(ids, config.vocab_size)
    other = {"cut": "sentencepiece", "hidden": ["<s>", "<pad>", MASK]}
    settings = multilingual_settings(options, codes, vocabulary, config, other)
    return ImportedTokenizer.joint(settings, vocabulary, model)


def multilingual_settings(
    options: dict[str, Any], codes: list[str], vocabulary: Sequence[str], config: ModelConfig, other: dict[str, Any]
) -> ImportedTokenizerSettings:
    """Tokenizer settings, with language pieces where the tokenizer class puts them; `other`: the remaining ones."""
    classes = ("MBartTokenizer", "MBartTokenizerFast")
    first_mbart = options.get("tokenizer_class") in classes or not listed_tokens(options)
    code_last = first_mbart or options.get("legacy_behaviour") is True  # the source ends with its language
    target = vocabulary[config.bos_id] if first_mbart else options.get("tgt_lang")  # the first mBART starts with it
    return ImportedTokenizerSettings(
        joint=True,
        before_source=[] if code_last else [SOURCE],
        after_source=["</s>", SOURCE] if code_last else ["</s>"],
        before_target=[] if first_mbart else [TARGET],
        after_target=["</s>"],
        languages={code.strip("_"): code for code in codes},
        source_language=_known(options.get("src_lang"), codes),
        target_language=_known(target, codes),
        **other,
    )


def write_multilingual_tokenizer(tokenizer: AnyTokenizer, directory: Path, name: str) -> None:
    """Write Hugging Face's tokenizer files; `name`: the class (M2M100 or mBART-50), or a related one where needed."""
    if not isinstance(tokenizer, ImportedTokenizer) or not tokenizer.settings.languages:
        return
    settings = tokenizer.settings
    codes = list(settings.languages.values())
    pieces = dict(enumerate(tokenizer.pieces(range(tokenizer.vocab_size("source")), "source")))
    options: dict[str, Any] = {"src_lang": settings.source_language, "tgt_lang": settings.target_language}
    if name == "M2M100Tokenizer" and codes[0].startswith("__"):
        end = min(i for i, piece in pieces.items() if piece in codes)
        write_json(directory / "vocab.json", {pieces[i]: i for i in range(end)})
        options["language_codes"] = "m2m100" if len(codes) > 8 else "wmt21"  # lists built into their class
    elif name == "M2M100Tokenizer":
        name, options["legacy_behaviour"] = "NllbTokenizer", SOURCE in settings.after_source
        # Otherwise their class puts <mask> before the languages and shifts their ids by one.
        special = {*SPECIAL_TOKENS, *codes, MASK}
        options["added_tokens_decoder"] = {
            str(i): {"content": piece, "special": True, "normalized": False, "lstrip": piece == MASK}
            for i, piece in pieces.items()
            if piece in special
        }
    elif SOURCE in settings.after_source:
        name = "MBartTokenizer"
    (directory / SPM_FILE).write_bytes(segmentation_models(tokenizer)["source"])
    options |= {"tokenizer_class": name, "additional_special_tokens": codes}
    write_json(directory / "tokenizer_config.json", {key: value for key, value in options.items() if value})


def read_tokenizer_config(directory: Path) -> dict[str, Any]:
    """Read tokenizer_config.json, over the settings in special_tokens_map.json."""
    options: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (directory / name).exists():
            values = read_json(inside(directory, name))
            options |= {key: value for key, value in values.items() if value}
    return options


def listed_tokens(options: dict[str, Any]) -> list[str]:
    """The additional tokens that a tokenizer's settings list (languages, sentinels), in the order of their ids."""
    listed = options.get("additional_special_tokens") or options.get("extra_special_tokens") or []
    tokens = listed if isinstance(listed, list) else []
    contents = [token.get("content") if isinstance(token, dict) else token for token in tokens]
    return [content for content in contents if isinstance(content, str) and content != MASK]


def _known(code: Any, codes: list[str]) -> str | None:
    names = {name.strip("_") for name in codes}
    return code.strip("_") if isinstance(code, str) and code.strip("_") in names else None
