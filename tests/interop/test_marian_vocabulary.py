"""Files beside a Marian model: vocabularies as tokenizers, and the decoder's options."""

import io
from pathlib import Path

import pytest
import sentencepiece

from glassformer.errors import DirectoryError
from glassformer.interop.marian import open_marian
from glassformer.translator import Translator
from tests.examples import seeded_random
from tests.interop import marian_writer as marian
from tests.interop.mutations import MUTATIONS
from tests.interop.test_marian_file import is_refused, mutated

SENTENCES = {
    "en": [
        "The children are playing in the garden.",
        "I would like a glass of water, please.",
        "The train to Lisbon leaves at eight in the morning.",
        "She has lived in this city for ten years.",
        "The price of bread has risen since last summer.",
        "He opened the window because it was very hot.",
    ],
    "pt": [
        "As crianças estão brincando no jardim.",
        "Eu gostaria de um copo de água, por favor.",
        "O trem para Lisboa sai às oito da manhã.",
        "Ela vive nesta cidade há dez anos.",
        "O preço do pão aumentou desde o verão passado.",
        "Ele abriu a janela porque estava muito quente.",
    ],
}


def spm(texts: list[str], size: int) -> bytes:
    """As Marian trains its own: end is 0, unknown is 1, and there are no other special tokens."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, vocab_size=size, hard_vocab_limit=False,
        pad_id=-1, bos_id=-1, eos_id=0, unk_id=1, num_threads=1, minloglevel=2,
    )  # fmt: skip
    return model.getvalue()


def with_vocabulary(directory: Path, size: int, target: int | None = None) -> None:
    options = marian.options(dim_vocabs=[size, target or size])
    if target:
        options |= {"tied-embeddings-all": False, "tied-embeddings": True}
    marian.write_bin(directory / "model.en.bin", marian.tensors(options), options, "intgemm8")


@pytest.mark.parametrize("configured", [True, False])
def test_text_is_segmented_as_the_sentencepiece_model_does(configured, tmp_path):
    model = spm(SENTENCES["en"], 60)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    (tmp_path / "vocab.en.spm").write_bytes(model)
    with_vocabulary(tmp_path, processor.vocab_size())
    (tmp_path / "lex.bin").write_bytes(b"\xf5\x17\x34\x01\xd5\x48\x1a\xf1" + bytes(40))
    if configured:
        (tmp_path / "config.yml").write_text(
            "relative-paths: true\nmodels:\n  - model.en.bin\nvocabs:\n  - vocab.en.spm\n  - vocab.en.spm\n"
            "shortlist:\n    - lex.bin\n    - false\nbeam-size: 1\nnormalize: 1.0\n"
        )
    opened = open_marian(tmp_path)
    for text in [*SENTENCES["en"], "漢字 and  more", ""]:
        assert opened.tokenizer.encode(text, "source") == [*processor.encode(text), 0]
        assert opened.tokenizer.decode([*processor.encode(text), 0]) == processor.decode(processor.encode(text))
    assert opened.tokenizer.vocab_size("source") == opened.model.config.vocab_size
    assert any("beam-size = 1" in note for note in opened.notes) == configured
    assert any("shortlist" in note for note in opened.notes) == configured
    assert len(Translator(opened.model, opened.tokenizer).translate(SENTENCES["en"])) == 6


def test_source_and_target_may_have_vocabularies_of_their_own(tmp_path):
    models = {"srcvocab.enpt.spm": spm(SENTENCES["en"], 60), "trgvocab.enpt.spm": spm(SENTENCES["pt"], 50)}
    sizes = []
    for name, model in models.items():
        (tmp_path / name).write_bytes(model)
        sizes.append(sentencepiece.SentencePieceProcessor(model_proto=model).vocab_size())
    with_vocabulary(tmp_path, *sizes)
    opened = open_marian(tmp_path / "model.en.bin")
    for side, language, model in zip(("source", "target"), ("en", "pt"), models.values(), strict=True):
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        text = SENTENCES[language][0]
        assert opened.tokenizer.encode(text, side) == [*processor.encode(text), 0]


def test_a_word_list_splits_text_at_spaces(tmp_path):
    words = ["a", "b", "</s>", "<unk>", "c:", ">>pt<<", *"defgh"]
    (tmp_path / "vocab.yml").write_text("".join(f"{word}: {number}\n" for number, word in enumerate(words)))
    with_vocabulary(tmp_path, 11)
    opened = open_marian(tmp_path)
    assert opened.model.config.eos_id == 2
    assert opened.tokenizer.encode(">>pt<< a c: z", "source") == [5, 0, 4, 3, 2]
    assert opened.tokenizer.decode([0, 4, 2]) == "a c:"
    assert any("separated by spaces" in note for note in opened.notes)


def test_a_list_of_pieces_is_segmented_by_the_sentencepiece_models_beside_it(tmp_path):
    """As OPUS-MT publishes its models."""
    models = {"source": spm(SENTENCES["en"], 60), "target": spm(SENTENCES["pt"], 50)}
    processors = {side: sentencepiece.SentencePieceProcessor(model_proto=model) for side, model in models.items()}
    pieces = {spm.id_to_piece(i) for spm in processors.values() for i in range(spm.vocab_size())}
    numbers = {
        piece: number for number, piece in enumerate(["</s>", "<unk>", ">>pt<<", *sorted(pieces - {"</s>", "<unk>"})])
    }
    (tmp_path / "opus.vocab.yml").write_text("".join(f'"{piece}": {number}\n' for piece, number in numbers.items()))
    for side, model in models.items():
        (tmp_path / f"{side}.spm").write_bytes(model)
    with_vocabulary(tmp_path, len(numbers))
    opened = open_marian(tmp_path)
    for side, language in (("source", "en"), ("target", "pt")):
        for text in SENTENCES[language]:
            expected = [numbers[piece] for piece in processors[side].encode(text, out_type=str)]
            assert opened.tokenizer.encode(text, side) == [*expected, 0]
            assert opened.tokenizer.encode(f">>pt<< {text}", side) == [2, *expected, 0]
    assert opened.tokenizer.decode(opened.tokenizer.encode(SENTENCES["pt"][3], "target")) == SENTENCES["pt"][3]


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"config.yml": b"models:\n  - ../model.bin\n"}, "is not a file name in that directory"),
        ({"config.yml": b"models:\n  - absent.bin\n"}, "There is no file"),
        ({"config.yml": b'models:\n  - "a\\x00b.bin"\n'}, "is not a file name in that directory"),
        ({"config.yml": b"models:\n  - " + 400 * b"a" + b"\n"}, "is not a file name in that directory"),
        ({"config.yml": b"models:\n  - model.en.bin\nvocabs:\n  - x.spm\n"}, "instead of two files"),
        (
            {"config.yml": b"models:\n  - model.en.bin\nvocabs:\n  - x.spm\n  - x.spm\n", "x.spm": b"no"},
            "x.spm is not a SentencePiece model",
        ),
        ({"vocab.yml": b"a: 0\nb: 1\n"}, "the vocabulary lacks </s> and <unk>"),
        ({"vocab.yml": b"</s>: 0\n<unk>: 1\na: 99\n"}, "out of range for the model's 11 tokens"),
        ({"other.npz": b"PK\x03\x04"}, "several .model.en.bin, other.npz.: give the path of one"),
    ],
)
def test_a_wrong_directory_is_refused_with_a_reason(files, complaint, tmp_path):
    with_vocabulary(tmp_path, 11)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DirectoryError, match=complaint):
        open_marian(tmp_path)


def test_damaged_texts_give_our_errors_and_nothing_else(tmp_path):
    with_vocabulary(tmp_path, 11)
    good = {
        "config.yml": b"models:\n  - model.en.bin\nvocabs:\n  - vocab.yml\n  - vocab.yml\nbeam-size: 1\n",
        "vocab.yml": "".join(
            f"{word}: {i}\n" for i, word in enumerate(["</s>", "<unk>", "'a'", '"\\x41"', "é"])
        ).encode(),
    }
    chance = seeded_random("vocabulary")
    refused = 0
    for i in range(MUTATIONS // 8):
        for name, content in good.items():
            (tmp_path / name).write_bytes(
                mutated(content, chance) if (name == "vocab.yml") == (i % 2 == 0) else content
            )
        refused += is_refused(tmp_path)
    assert refused > MUTATIONS // 32


def test_a_file_that_is_not_options_is_ignored_with_a_note(tmp_path):
    with_vocabulary(tmp_path, 11)
    (tmp_path / "config.yml").write_text("a:\n  b:\n    c: 1\n")
    assert any("config.yml, line 2" in note for note in open_marian(tmp_path).notes)


def test_without_a_vocabulary_it_takes_ids(tmp_path):
    with_vocabulary(tmp_path, 11)
    opened = open_marian(tmp_path)
    assert opened.tokenizer is None
    assert any("no vocabulary" in note for note in opened.notes)


def test_a_directory_without_a_model_is_refused(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK\x03\x04 of another program")
    with pytest.raises(DirectoryError, match="holds none"):
        open_marian(tmp_path)
