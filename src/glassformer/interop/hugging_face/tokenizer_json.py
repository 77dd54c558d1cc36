"""Hugging Face's `tokenizer.json`, where it stands alone: all of a tokenizer in one file, as `tokenizers` saves it.

How text is cut is `data.pipeline`'s affair; here is what stands around a text, and which tokens are languages.
"""

import re
import reprlib
from pathlib import Path
from typing import Any

from glassformer.data import AnyTokenizer, ForeignSettings, ForeignTokenizer
from glassformer.data.foreign_tokenizer import by_number
from glassformer.data.tokenizer_pipeline import Pipeline, UnsupportedComponentError
from glassformer.data.tokenizer_pipeline.added_tokens import AddedToken
from glassformer.data.tokenizer_pipeline.component import Component, parts_of
from glassformer.data.tokenizer_pipeline.tokenizer_json_file import LARGEST_FILE, taken_apart
from glassformer.errors import DataError
from glassformer.interop.bounded_files import SPARE
from glassformer.interop.hugging_face.multilingual import MASK, codes_of, read_about, settings_of_many
from glassformer.interop.tokenizer_files import models_of
from glassformer.interop.untrusted_files import inside, read_bytes, write_json
from glassformer.model import ModelConfig

FILE, CONFIG = "tokenizer.json", "tokenizer_config.json"
OF_MANY = ("mbart", "m2m_100")
"""Families whose texts say their language."""
AROUND = {"bart": (["<s>"], ["</s>"])}
"""Where no file says what stands around a text; elsewhere it is the end."""
CODE = re.compile(r"__[a-z]{2,3}__|[a-z]{2,3}_(?:[A-Z]{2}|[A-Z][a-z]{3})")
"""How pieces of languages look, where no file lists them: __de__, de_DE, deu_Latn."""
CLASSES = {False: "MBart50Tokenizer", True: "MBartTokenizer"}


def json_tokenizer(directory: Path, kind: str, config: ModelConfig) -> tuple[ForeignTokenizer | None, str | None]:
    """The tokenizer of a directory's tokenizer.json, and what is to be said of it; neither where there is none."""
    if not (directory / FILE).exists():
        return None, None
    path = inside(directory, FILE)
    content = read_bytes(path, LARGEST_FILE)
    try:
        pipeline = Pipeline.of(taken_apart(content, config.vocab_size + SPARE))
        vocabulary = by_number(_numbers(pipeline, config.vocab_size), config.vocab_size)
        settings = _settings(directory, kind, config, pipeline, vocabulary)
    except UnsupportedComponentError as error:
        return None, f"{FILE} cannot be read, {error} It takes ids, not text."
    except DataError as error:
        raise DataError(f"{FILE}: {error}") from None
    tokenizer = ForeignTokenizer(
        settings,
        {"source": vocabulary, "target": vocabulary},
        {"source": content, "target": content},
        {content: pipeline},
    )
    return tokenizer, None


def write_json_tokenizer(tokenizer: AnyTokenizer, directory: Path, kind: str) -> bool:
    """The file again, as it came, with what their classes want to know; False if the tokenizer is another."""
    if not isinstance(tokenizer, ForeignTokenizer) or tokenizer.settings.cut != "pipeline":
        return False
    (directory / FILE).write_bytes(models_of(tokenizer)["source"])
    settings = tokenizer.settings
    about: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": settings.unknown}
    about |= {
        f"{name}_token": piece for name, piece in (("eos", "</s>"), ("pad", "<pad>"), ("bos", "<s>"), ("mask", MASK))
    }
    if settings.languages:
        behind = bool(settings.after_source[1:])
        about["tokenizer_class"] = "NllbTokenizer" if kind == "m2m_100" else CLASSES[behind]
        about |= {"src_lang": settings.source_language, "tgt_lang": settings.target_language}
        about |= {"legacy_behaviour": behind, "additional_special_tokens": list(settings.languages.values())}
    pieces = {*tokenizer.pieces(range(tokenizer.vocab_size("source")), "source")}
    known = {name: value for name, value in about.items() if not name.endswith("_token") or value in pieces}
    write_json(directory / CONFIG, {name: value for name, value in known.items() if value is not None})
    return True


def _numbers(pipeline: Pipeline, size: int) -> dict[str, int]:
    """The number of each piece and each added token; tokens that the model has no row for are left out."""
    numbers = dict(pipeline.file.numbers)
    if len({*numbers.values()}) < len(numbers):
        raise DataError("its model gives two pieces the same number.")
    free = len(numbers)  # theirs numbers what is added in order, behind the model's pieces
    for token in pipeline.added:
        wanted = numbers.get(token.content, free)
        if token.number != wanted:
            said = f"{reprlib.repr(token.content)} has the number {token.number} and would get {wanted}"
            raise DataError(f"its added_tokens do not follow its pieces: {said}.")
        free = max(free, token.number + 1)
        numbers[token.content] = token.number
    added = {token.content for token in pipeline.added}
    return {piece: number for piece, number in numbers.items() if number < size or piece not in added}


def _settings(
    directory: Path, kind: str, config: ModelConfig, pipeline: Pipeline, vocabulary: list[str]
) -> ForeignSettings:
    about = read_about(directory)
    special = [token for token in pipeline.added if token.special]
    own: dict[str, Any] = {
        "cut": "pipeline",
        "unknown": _unknown(pipeline, about),
        "hidden": [token.content for token in special if _is_hidden(token, pipeline)],
    }
    codes = _languages(about, special) if kind in OF_MANY else []
    if codes:
        if kind == "m2m_100" or "tokenizer_class" in about:  # else only the first mBART lists none
            about |= {"additional_special_tokens": codes}
        return settings_of_many(about, codes, vocabulary, config, own)
    before, after = _around(pipeline) or AROUND.get(kind, ([], ["</s>"]))
    return ForeignSettings(
        joint=True, before_source=before, after_source=after, before_target=before, after_target=after, **own
    )


def _is_hidden(token: AddedToken, pipeline: Pipeline) -> bool:
    """Sentinels are what T5 answers with, and what is unknown is shown."""
    return "<extra_id_" not in token.content and token.content != pipeline.unknown


def _unknown(pipeline: Pipeline, about: dict[str, Any]) -> str:
    said = about.get("unk_token")
    said = said.get("content") if isinstance(said, dict) else said
    return pipeline.unknown or (said if isinstance(said, str) else "<unk>")


def _languages(about: dict[str, Any], special: list[AddedToken]) -> list[str]:
    known = [token.content for token in special]
    listed = [code for code in codes_of(about) if code in known and not code.startswith("<")]
    return listed or [content for content in known if CODE.fullmatch(content)]


def _around(pipeline: Pipeline) -> tuple[list[str], list[str]] | None:
    """What a `post_processor` puts before and behind one text; None if there is none."""
    parts = parts_of("post_processor", pipeline.file.rest.get("post_processor"), "processors")
    found = [_template(part) for part in parts if part.kind != "ByteLevel"]  # which is about offsets only
    if len(found) > 1:
        raise parts[0].strange("puts tokens around a text more than once")
    return found[0] if found else None


def _template(part: Component) -> tuple[list[str], list[str]]:
    match part.kind:
        case "RobertaProcessing" | "BertProcessing":
            return [_named(part, "cls")], [_named(part, "sep")]
        case "TemplateProcessing":
            single = part.values.get("single")
            if not isinstance(single, list) or len(single) > 20:
                raise DataError(f"its post_processor has single = {reprlib.repr(single)}, which is no template.")
            sides: tuple[list[str], list[str]] = ([], [])
            behind = 0
            for entry in single:
                if _kind(entry) == "Sequence":
                    behind += 1
                else:
                    sides[min(behind, 1)].extend(_tokens(part, entry))
            if behind == 1:
                return sides
    raise part.strange()


def _kind(entry: Any) -> str:
    return next(iter(entry)) if isinstance(entry, dict) and len(entry) == 1 else ""


def _tokens(part: Component, entry: Any) -> list[str]:
    """The tokens that an entry of a template stands for."""
    name = entry["SpecialToken"].get("id") if isinstance(entry, dict) and _is_special(entry) else None
    listed = part.values.get("special_tokens")
    said = listed.get(name) if isinstance(listed, dict) and isinstance(name, str) else None
    tokens = said.get("tokens") if isinstance(said, dict) else None
    if not isinstance(tokens, list) or len(tokens) > 20 or not all(isinstance(token, str) for token in tokens):
        raise DataError(f"its post_processor has {reprlib.repr(entry)} in its template, which is no token.")
    return tokens


def _is_special(entry: dict[str, Any]) -> bool:
    return isinstance(entry.get("SpecialToken"), dict)


def _named(part: Component, name: str) -> str:
    value = part.values.get(name)
    if not isinstance(value, list) or not value or not isinstance(value[0], str):
        raise DataError(f"its post_processor has {name} = {reprlib.repr(value)}, which is no token.")
    return value[0]
