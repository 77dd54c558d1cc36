"""Import and export of Hugging Face's `tokenizer.json`: a whole tokenizer in one file, as `tokenizers` saves it.

Segmentation is done by `data.tokenizer_pipeline`; this module finds the special tokens around a text and the languages.
"""

import re
import reprlib
from pathlib import Path
from typing import Any

from glassformer.data import AnyTokenizer, ImportedTokenizer, ImportedTokenizerSettings
from glassformer.data.imported_tokenizer import pieces_by_id
from glassformer.data.tokenizer import SIDES
from glassformer.data.tokenizer_pipeline import Pipeline, UnsupportedComponentError
from glassformer.data.tokenizer_pipeline.component import Component, components_of
from glassformer.data.tokenizer_pipeline.tokenizer_json_file import MAX_FILE_BYTES
from glassformer.errors import DataError
from glassformer.interop.bounded_files import EXTRA_PIECES
from glassformer.interop.hugging_face.multilingual import (
    MASK,
    listed_tokens,
    multilingual_settings,
    read_tokenizer_config,
)
from glassformer.interop.tokenizer_files import segmentation_models
from glassformer.interop.untrusted_files import inside, read_bytes, write_json
from glassformer.model import ModelConfig

FILE, CONFIG = "tokenizer.json", "tokenizer_config.json"
MULTILINGUAL = ("mbart", "m2m_100")
"""Families whose tokenizers mark the language of a text."""
DEFAULT_SPECIAL_TOKENS = {"bart": (["<s>"], ["</s>"])}
"""Tokens before and after a text if no file states them; in other families, the end token alone."""
LANGUAGE_CODE = re.compile(r"__[a-z]{2,3}__|[a-z]{2,3}_(?:[A-Z]{2}|[A-Z][a-z]{3})")
"""Pattern of language pieces, if no file lists them: __de__, de_DE, deu_Latn."""
CLASSES = {False: "MBart50Tokenizer", True: "MBartTokenizer"}


def json_tokenizer(directory: Path, kind: str, config: ModelConfig) -> tuple[ImportedTokenizer | None, str | None]:
    """Read a directory's tokenizer.json: the tokenizer, or None and a note why not; no note without such a file."""
    if not (directory / FILE).exists():
        return None, None
    path = inside(directory, FILE)
    content = read_bytes(path, MAX_FILE_BYTES)
    try:
        pipeline = Pipeline(content, config.vocab_size + EXTRA_PIECES)
        vocabulary = pieces_by_id(_ids(pipeline, config.vocab_size), config.vocab_size)
        settings = _settings(directory, kind, config, pipeline, vocabulary)
    except UnsupportedComponentError as error:
        return None, f"{FILE} cannot be read: {error} The model takes token ids, not text."
    except DataError as error:
        raise DataError(f"{FILE}: {error}") from None
    vocabularies, contents = dict.fromkeys(SIDES, vocabulary), dict.fromkeys(SIDES, content)
    return ImportedTokenizer(settings, vocabularies, contents, {content: pipeline}), None


def write_json_tokenizer(tokenizer: AnyTokenizer, directory: Path, kind: str) -> bool:
    """Write the original tokenizer.json and the settings that `transformers` needs; False if it has another origin."""
    if not isinstance(tokenizer, ImportedTokenizer) or tokenizer.settings.cut != "pipeline":
        return False
    (directory / FILE).write_bytes(segmentation_models(tokenizer)["source"])
    settings = tokenizer.settings
    options: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": settings.unknown}
    options |= {"eos_token": "</s>", "pad_token": "<pad>", "bos_token": "<s>", "mask_token": MASK}
    if settings.languages:
        code_last = bool(settings.after_source[1:])
        options["tokenizer_class"] = "NllbTokenizer" if kind == "m2m_100" else CLASSES[code_last]
        options |= {"src_lang": settings.source_language, "tgt_lang": settings.target_language}
        options |= {"legacy_behaviour": code_last, "additional_special_tokens": list(settings.languages.values())}
    pieces = {*tokenizer.pieces(range(tokenizer.vocab_size("source")), "source")}
    known = {name: value for name, value in options.items() if not name.endswith("_token") or value in pieces}
    write_json(directory / CONFIG, {name: value for name, value in known.items() if value is not None})
    return True


def _ids(pipeline: Pipeline, size: int) -> dict[str, int]:
    """The id of each piece and each added token; added tokens without a row in the model are left out."""
    ids = dict(pipeline.file.ids)
    if len({*ids.values()}) < len(ids):
        raise DataError("the model gives two pieces the same id.")
    next_id = len(ids)  # `tokenizers` gives added tokens the ids after the model's pieces, in order
    for token in pipeline.added:
        expected = ids.get(token.content, next_id)
        if token.id != expected:
            mismatch = f"{reprlib.repr(token.content)} has id {token.id}, expected {expected}"
            raise DataError(f"the added_tokens do not follow the pieces: {mismatch}.")
        next_id = max(next_id, token.id + 1)
        ids[token.content] = token.id
    added = {token.content for token in pipeline.added}
    return {piece: i for piece, i in ids.items() if i < size or piece not in added}


def _settings(
    directory: Path, kind: str, config: ModelConfig, pipeline: Pipeline, vocabulary: list[str]
) -> ImportedTokenizerSettings:
    options = read_tokenizer_config(directory)
    special = [token.content for token in pipeline.added if token.special]
    other: dict[str, Any] = {
        "cut": "pipeline",
        "unknown": _unknown(pipeline, options),
        # Decoding shows T5's sentinels and the unknown token.
        "hidden": [token for token in special if "<extra_id_" not in token and token != pipeline.unknown],
    }
    codes = _languages(options, special) if kind in MULTILINGUAL else []
    if codes:
        if kind == "m2m_100" or "tokenizer_class" in options:  # otherwise it is the first mBART, which lists none
            options |= {"additional_special_tokens": codes}
        return multilingual_settings(options, codes, vocabulary, config, other)
    before, after = _special_tokens(pipeline) or DEFAULT_SPECIAL_TOKENS.get(kind, ([], ["</s>"]))
    return ImportedTokenizerSettings(
        joint=True, before_source=before, after_source=after, before_target=before, after_target=after, **other
    )


def _unknown(pipeline: Pipeline, options: dict[str, Any]) -> str:
    token = options.get("unk_token")
    token = token.get("content") if isinstance(token, dict) else token
    return pipeline.unknown or (token if isinstance(token, str) else "<unk>")


def _languages(options: dict[str, Any], special: list[str]) -> list[str]:
    listed = [code for code in listed_tokens(options) if code in special and not code.startswith("<")]
    return listed or [token for token in special if LANGUAGE_CODE.fullmatch(token)]


def _special_tokens(pipeline: Pipeline) -> tuple[list[str], list[str]] | None:
    """The tokens that the `post_processor` adds before and after a text; None without a `post_processor`."""
    parts = components_of("post_processor", pipeline.file.rest.get("post_processor"), "processors")
    templates = [_template(part) for part in parts if part.kind != "ByteLevel"]  # which changes offsets only
    if len(templates) > 1:
        raise parts[0].unsupported("adds special tokens more than once")
    return templates[0] if templates else None


def _template(part: Component) -> tuple[list[str], list[str]]:
    match part.kind:
        case "RobertaProcessing":
            return [_named(part, "cls")], [_named(part, "sep")]
        case "TemplateProcessing":
            single = part.values.get("single")
            if not isinstance(single, list) or len(single) > 20:
                raise DataError(f"the post_processor has single = {reprlib.repr(single)}, which is not a template.")
            sides: tuple[list[str], list[str]] = ([], [])
            texts = 0
            for entry in single:
                if isinstance(entry, dict) and [*entry] == ["Sequence"]:
                    texts += 1
                else:
                    sides[min(texts, 1)].extend(_tokens(part, entry))
            if texts == 1:
                return sides
    raise part.unsupported()


def _tokens(part: Component, entry: Any) -> list[str]:
    """The tokens of one entry of a `post_processor` template."""
    tokens = None
    match entry, part.values.get("special_tokens"):
        case {"SpecialToken": {"id": str(name)}}, dict(listed) if isinstance(listed.get(name), dict):
            tokens = listed[name].get("tokens")
    if not isinstance(tokens, list) or len(tokens) > 20 or not all(isinstance(token, str) for token in tokens):
        raise DataError(f"the post_processor has {reprlib.repr(entry)} in its template, which is not a token.")
    return tokens


def _named(part: Component, name: str) -> str:
    value = part.values.get(name)
    if not isinstance(value, list) or not value or not isinstance(value[0], str):
        raise DataError(f"the post_processor has {name} = {reprlib.repr(value)}, which is not a token.")
    return value[0]
