"""Directories with `tokenizer.json` alone, as `transformers` 5 saves them: the same tokens as `transformers` gives.

Intended differences, as with the other tokenizers: text cannot name a special token, and unknown pieces stay visible.
"""

import functools
import json
import os
import random
import shutil

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
from hypothesis import given
from transformers import PegasusTokenizer

from glassformer.data import ImportedTokenizer
from glassformer.data.word_spans import marks_of, words
from glassformer.errors import DirectoryError
from glassformer.interop.format_detection import open_imported
from glassformer.interop.hugging_face import open_hugging_face, write_hugging_face
from glassformer.interop.hugging_face.tokenizer_json import json_tokenizer
from glassformer.model import ModelConfig, Transformer
from tests.examples import max_examples
from tests.interop.test_tokenizers import MAKERS, TEXTS, anything, common, comparable, opened_by_them, pieces_of, small

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses:UserWarning")


class Saved:
    """A tokenizer that `transformers` saved again, opened by both."""

    def __init__(self, directory, theirs, kind, config, languages=(None, None)):
        theirs.save_pretrained(directory)
        assert {path.name for path in directory.iterdir()} == {"tokenizer.json", "tokenizer_config.json"}
        (directory / "config.json").write_text(json.dumps({"model_type": kind}))
        self.directory, self.kind, self.config, self.languages = directory, kind, config, languages
        self.theirs = opened_by_them(directory, languages)
        self.read, note = json_tokenizer(directory, kind, config)
        assert note is None, note
        self.ours = self.read.with_languages(*languages)
        self.special = [token for token in self.theirs.all_special_tokens if "extra_id" not in token]

    def ids(self, text, side):
        """Their ids; if their labels end with the language, it is moved to the front, as their models do."""
        ids = self.theirs(text)["input_ids"] if side == "source" else self.theirs(text_target=text)["input_ids"]
        if side == "target" and self.ours.settings.after_source[1:]:
            *ids, language = ids
            ids = [language, *ids] if self.ours.settings.before_target else ids
        return ids

    def check(self, text):
        if not any(token in text for token in self.special):
            for side in ("source", "target"):
                assert self.ours.encode(text, side) == self.ids(text, side)


def of_case(name, directory, scratch):
    made = MAKERS[name](scratch)
    return Saved(directory, made.theirs, made.kind, made.config, made.languages)


def pegasus(directory, _):
    model = common("unigram", 2, -1, 1, 0)
    path = directory.parent / "spiece.model"
    path.write_bytes(model)
    pieces = pieces_of(model)
    theirs = PegasusTokenizer.from_pretrained(path.parent)
    config = ModelConfig(**{**small("pegasus"), "vocab_size": len(pieces) + 200, "pad_id": 0, "bos_id": 0, "eos_id": 1})
    return Saved(directory, theirs, "pegasus", config)


NAMES = ["nllb", "nllb-legacy", "mbart25", "mbart50", "t5", "mt5", "bart", "pegasus"]
every = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    @functools.cache
    def made(name):
        here = tmp_path_factory.mktemp(name)
        (here / "saved").mkdir()
        return (pegasus if name == "pegasus" else functools.partial(of_case, name))(here / "saved", here)

    return made


@every
def test_text_has_their_ids(saved, name):
    for text in TEXTS:
        saved(name).check(text)


@every
@max_examples(100)
@given(anything)
def test_any_text_has_their_ids(saved, name, text):
    saved(name).check(text)


@every
def test_ids_have_their_text(saved, name):
    case, pick = saved(name), random.Random(name)
    rows = [case.ours.encode(text, "target") for text in TEXTS]
    rows += [[pick.randrange(case.config.vocab_size) for _ in range(pick.randint(0, 12))] for _ in range(300)]
    for row in rows:
        ids = comparable(case, row)
        assert case.ours.decode(ids) == case.theirs.decode(ids, skip_special_tokens=True)


@every
def test_kept_in_our_directory_it_is_the_same(saved, name, tmp_path):
    case = saved(name)
    case.ours.write(tmp_path / "tokenizer")
    again = ImportedTokenizer.read(tmp_path / "tokenizer")
    assert again.files() == case.ours.files()
    for text in TEXTS:
        ids = case.ours.encode(text, "target")
        assert again.encode(text, "target") == ids
        assert again.decode(ids) == case.ours.decode(ids)


@every
def test_exported_and_imported_again_it_is_the_same_and_they_read_it(saved, name, tmp_path):
    case = saved(name)
    write_hugging_face(Transformer(case.config), case.ours, tmp_path)
    again = open_hugging_face(tmp_path).tokenizer.with_languages(*case.languages)
    assert again.files() == case.ours.files()
    theirs = opened_by_them(tmp_path, case.languages)
    for text in TEXTS:
        assert theirs(text)["input_ids"] == case.theirs(text)["input_ids"]


@pytest.mark.parametrize("name", ["nllb", "nllb-legacy", "mbart25", "mbart50"])
def test_every_language_has_their_number(saved, name):
    case = saved(name)
    assert (
        len(case.read.settings.languages) == {"nllb": 202, "mbart25": 25, "mbart50": 52}[name.removesuffix("-legacy")]
    )
    for code, piece in case.read.settings.languages.items():
        case.theirs.src_lang = code
        source = case.read.with_languages(code, None).encode("a", "source")
        assert source == case.theirs("a")["input_ids"]
        assert case.theirs.convert_tokens_to_ids(piece) in source
    case.theirs.src_lang = case.languages[0]


@pytest.mark.parametrize("name", ["nllb", "mbart25", "mbart50"])
def test_languages_that_no_file_lists_are_found(saved, name, tmp_path):
    case = saved(name)
    shutil.copytree(case.directory, tmp_path, dirs_exist_ok=True)
    about = json.loads((tmp_path / "tokenizer_config.json").read_text())
    del about["extra_special_tokens"]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(about))
    again, _ = json_tokenizer(tmp_path, case.kind, case.config)
    assert {**again.settings.languages} == {**case.read.settings.languages}
    assert again.with_languages(*case.languages).encode("a", "source") == case.ours.encode("a", "source")
    assert again.with_languages(*case.languages).encode("a", "target") == case.ours.encode("a", "target")


@every
def test_no_text_names_a_special_token(saved, name):
    ours = saved(name).ours
    hidden = {ours._ids["source"][token] for token in ("</s>", "<pad>", *ours.settings.languages.values())}
    around = sum(number in hidden for number in ours.encode("", "source"))
    for token in ("</s>", "<pad>", "<s>", *list(ours.settings.languages.values())[:3]):
        ids = ours.encode(f"a {token} b", "source")
        assert sum(number in hidden for number in ids) == around
    assert name == "bart" or "⁇" in ours.decode(ours.encode("a ☃ b", "target"))


def test_sentinels_and_masks_are_written_in_the_text(saved):
    for name, texts in {
        "t5": ["fill <extra_id_0> in", "<extra_id_1>", "a<extra_id_99>b", "x <extra_id_0>, y", "<extra_id_100>"],
        "bart": ["fill <mask> in", "<mask>", "a<mask>b"],
        "nllb": ["fill <mask> in", "a<mask>b"],
        "pegasus": ["fill <mask_1> in", "<unk_5>", "a <mask_2>b"],
    }.items():
        for text in texts:
            assert saved(name).ours.encode(text, "source") == saved(name).ids(text, "source")
    ids = saved("t5").ours.encode("<extra_id_0> the dog", "target")
    assert saved("t5").ours.decode(ids) == "<extra_id_0> the dog"


def test_words_are_found_in_its_pieces(saved):
    for name in ("t5", "bart"):
        ours = saved(name).ours
        ids = ours.encode("The dog was tired.", "source")
        found = words(ours.pieces(ids, "source"), marks_of(ours))
        assert [word.text for word in found] == ["The", "dog", "was", "tired", "."]


def changed(saved, directory, change):
    """A copy with a changed tokenizer.json, in a directory with a model."""
    write_hugging_face(Transformer(saved.config), saved.ours, directory)
    content = json.loads((directory / "tokenizer.json").read_text())
    change(content)
    (directory / "tokenizer.json").write_text(json.dumps(content))
    return open_imported(directory, source_language=saved.languages[0], target_language=saved.languages[1])


UNSUPPORTED = {
    "normalizer has type 'BertNormalizer'": lambda file: file.update(normalizer={"type": "BertNormalizer"}),
    "normalizer has the regular expression '(a+)+'": lambda file: file.update(
        normalizer={"type": "Replace", "pattern": {"Regex": "(a+)+"}, "content": ""}
    ),
    "pre_tokenizer has type 'UnicodeScripts'": lambda file: file.update(pre_tokenizer={"type": "UnicodeScripts"}),
    "normalizer has type 'NFKC'": lambda file: file.update(normalizer={"type": "NFKC"}),
    "normalizer has strip_left = True": lambda file: file.update(
        normalizer={"type": "Strip", "strip_left": True, "strip_right": True}
    ),
    "pre_tokenizer has type 'Digits'": lambda file: file.update(pre_tokenizer={"type": "Digits"}),
    "model has type 'WordPiece'": lambda file: file["model"].update(type="WordPiece"),
    "decoder has type 'CTC'": lambda file: file.update(decoder={"type": "CTC"}),
    "post_processor has type 'Mine'": lambda file: file.update(post_processor={"type": "Mine"}),
}


@pytest.mark.parametrize("complaint", UNSUPPORTED)
def test_an_unsupported_component_is_named_and_the_model_takes_ids(saved, complaint, tmp_path):
    opened = changed(saved("t5"), tmp_path, UNSUPPORTED[complaint])
    assert opened.tokenizer is None
    [note] = opened.notes
    assert note.startswith(f"tokenizer.json cannot be read: the {complaint}")
    assert note.endswith(" The model takes token ids, not text.")


@pytest.mark.parametrize(("option", "value"), [("dropout", 0.1), ("byte_fallback", True), ("ignore_merges", True)])
def test_unsupported_options_of_bpe_are_named(saved, tmp_path, option, value):
    opened = changed(saved("bart"), tmp_path, lambda file: file["model"].update({option: value}))
    assert opened.tokenizer is None
    assert f"has {option} = {value}" in opened.notes[0]


WRONG = {
    "gives two pieces the same id": lambda file: file["model"]["vocab"].update({"one": 9, "two": 9}),
    "merges 'a' and 'qqq', but these or the result are not in the vocabulary": lambda file: file["model"][
        "merges"
    ].append(["a", "qqq"]),
    "do not follow the pieces": lambda file: file["added_tokens"].append({"id": 5, "content": "[x]", "special": False}),
    "has the id 999, out of range for the model's": lambda file: file["model"]["vocab"].update({"one": 999}),
    "added_tokens has an invalid entry": lambda file: file["added_tokens"].append({"id": 5}),
    "has more than": lambda file: file["model"]["vocab"].update({f"x{i}": 10_000 + i for i in range(10_000)}),
}


@pytest.mark.parametrize("complaint", WRONG)
def test_wrong_files_are_refused_with_a_reason(saved, complaint, tmp_path):
    with pytest.raises(DirectoryError, match=f"tokenizer.json: .*{complaint}"):
        changed(saved("bart"), tmp_path, WRONG[complaint])


def test_older_files_are_read_too(saved, tmp_path):
    """They have merges as text, Metaspace with `add_prefix_space`, and no model type."""

    def older(file):
        del file["model"]["type"]
        if "merges" in file["model"]:
            file["model"]["merges"] = [" ".join(pair) for pair in file["model"]["merges"]]
        for part in (file["pre_tokenizer"], file["decoder"]):
            if part["type"] == "Metaspace":
                part |= {"add_prefix_space": True, "str_rep": "▁"}
                del part["prepend_scheme"], part["split"]

    for name in ("nllb", "bart", "mbart50"):
        case = saved(name)
        (tmp_path / name).mkdir()
        read = changed(case, tmp_path / name, older).tokenizer
        for text in TEXTS:
            assert read.encode(text, "source") == case.ours.encode(text, "source")


def test_a_bart_without_a_row_for_its_mask(saved, tmp_path):
    """facebook/bart-large-cnn has 50,264 tokens, and <mask> would be the next."""
    case = saved("bart")
    directory, mask = case.directory, "<mask>"
    content = json.loads((directory / "tokenizer.json").read_text())
    moved = [piece for piece in content["model"]["vocab"] if piece != mask]
    content["model"]["vocab"] = {piece: number for number, piece in enumerate([*moved, mask])}
    for token in content["added_tokens"]:
        token["id"] = content["model"]["vocab"][token["content"]]
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    ours, _ = json_tokenizer(tmp_path, "bart", ModelConfig(**{**small("bart"), "vocab_size": len(moved)}))
    for text in [*TEXTS, "a <mask> b"]:
        assert max(ours.encode(text, "source")) < len(moved)
