"""`tokenizer.json` pipelines agree with `tokenizers`: small tokenizers of random components, on any text."""

import functools
import io
import json

import sentencepiece
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers.convert_slow_tokenizer import import_protobuf

from glassformer.data.tokenizer_pipeline import Pipeline
from tests.examples import max_examples

LINES = [
    "the cat sat on the mat and the dog sat on the cat; it wasn't 1234 or 56 times",
    "Où est passée la forêt d'à côté ? Ça coûte 1 234,50 € à Noël, « dit-elle ».",
    "Žluťoučký kůň úpěl ďábelské ódy 2026. Широкая электрификация южных губерний",
    "今日は良い天気ですね。東京タワーに行きましょう。 한국어 문장도 여기에 있습니다. हिन्दी में एक वाक्य है।",
    "Emoji 😀 🎉 👩\u200d👩\u200d👧 work 100 % of 3.14159 times: #tag @user http://example.org/?a=b&c=d_e",
]
HOSTILE = "ab cd\t\n\r\u00a0\u3000\u2028\x85\x1c\u200b\u200c\u200d\u0301\u0308\u20e3\u0903\u093e\u0e33\u0600\ufeff\x00▁"
HOSTILE += "ﬁ½①Ａ㍿ǅİΣς０Ⅷ๓ß\u1100\u1161\u11a8각\uff9e🇩🇪👍🏽©®™☃<>0xEé"
characters = st.sampled_from(HOSTILE + "".join(LINES))
texts = (
    st.text(characters, max_size=40)
    | st.text(st.characters(exclude_categories=["Cs", "Cn", "Co"]), max_size=12)
    | st.lists(st.sampled_from(["[new]", "[tok] ", " <mask> ", "<extra_id_0>", "ab", "<0x41>", " "]), max_size=9).map(
        "".join
    )
)


@functools.cache
def charsmap(rule):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 9),
        model_writer=model,
        vocab_size=200,
        hard_vocab_limit=False,
        normalization_rule_name=rule,
        minloglevel=2,
    )
    proto = import_protobuf().ModelProto()
    proto.ParseFromString(model.getvalue())
    return proto.normalizer_spec.precompiled_charsmap


def strip_right():
    return normalizers.Strip(left=False, right=True)


NORMALIZERS = {
    "none": lambda: None,
    "nmt_nfkc": lambda: normalizers.Precompiled(charsmap("nmt_nfkc")),
    "nfkc_cf": lambda: normalizers.Precompiled(charsmap("nfkc_cf")),
    "NLLB": lambda: normalizers.Sequence(
        [normalizers.Precompiled(charsmap("nmt_nfkc")), normalizers.Replace(Regex(" {2,}"), " ")]
    ),
    "Pegasus": lambda: normalizers.Sequence(
        [normalizers.Replace(Regex(r"\n"), " "), normalizers.Replace(Regex(" {2,}"), " ")]
    ),
    "mBART": lambda: normalizers.Sequence(
        [normalizers.Precompiled(charsmap("nmt_nfkc")), strip_right(), normalizers.Replace(Regex(" {2,}"), "▁")]
    ),
    "spaces": lambda: normalizers.Sequence([strip_right(), normalizers.Replace(" ", "▁")]),
}
PRE_TOKENIZERS = {
    "none": lambda: None,
    "metaspace": lambda: pre_tokenizers.Metaspace(),
    "first": lambda: pre_tokenizers.Metaspace(prepend_scheme="first"),
    "never": lambda: pre_tokenizers.Metaspace(prepend_scheme="never", split=False),
    "T5": lambda: pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]),
    "words first": lambda: pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="first")]
    ),
    "bytes": lambda: pre_tokenizers.ByteLevel(add_prefix_space=False),
    "bytes, prefixed": lambda: pre_tokenizers.ByteLevel(),
    "bytes, whole": lambda: pre_tokenizers.ByteLevel(use_regex=False),
}
DECODERS = {
    "none": lambda: None,
    "metaspace": lambda: decoders.Metaspace(),
    "never": lambda: decoders.Metaspace(prepend_scheme="never"),
    "bytes": lambda: decoders.ByteLevel(),
    "byte tokens": lambda: decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]),
}
ADDED = [
    AddedToken("[new]", normalized=True, single_word=False),
    AddedToken("[tok]", lstrip=True, rstrip=True, normalized=False),
    AddedToken("ab", single_word=True, normalized=True),
]
SPECIAL = [
    AddedToken("</s>", special=True, normalized=False),
    AddedToken("<mask>", special=True, normalized=False, lstrip=True),
    AddedToken("<extra_id_0>", special=True, normalized=False),
]


def trained(kind, pre_tokenizer, options):
    """A small tokenizer with these components; its alphabet is that of LINES without the last."""
    bytes_too = [f"<0x{byte:02X}>" for byte in range(256)] if options["byte_fallback"] else []
    special = ["<unk>", "</s>", *bytes_too]
    if kind == "unigram":
        made = Tokenizer(models.Unigram())
        trainer = trainers.UnigramTrainer(
            vocab_size=500, special_tokens=special, unk_token="<unk>", show_progress=False
        )
    else:
        made = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=options["fuse_unk"]))
        trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=special, show_progress=False)
    made.pre_tokenizer = PRE_TOKENIZERS[pre_tokenizer]()
    made.train_from_iterator(LINES[:-1] * 5, trainer)
    return made.to_str()


@functools.cache
def content(kind, normalizer, pre_tokenizer, decoder, fallback, fused):
    written = json.loads(trained(kind, pre_tokenizer, {"byte_fallback": fallback, "fuse_unk": fused}))
    written["model"]["byte_fallback"] = fallback and kind == "unigram"
    written["added_tokens"] = []
    made = Tokenizer.from_str(json.dumps(written))
    if NORMALIZERS[normalizer]() is not None:
        made.normalizer = NORMALIZERS[normalizer]()
    if DECODERS[decoder]() is not None:
        made.decoder = DECODERS[decoder]()
    made.add_special_tokens(SPECIAL)
    made.add_tokens(ADDED)
    return made


@functools.cache
def both(*parts):
    theirs = content(*parts)
    return theirs, Pipeline(theirs.to_str().encode())


def check(parts, text):
    theirs, ours = both(*parts)
    if "</s>" in text or "<unk>" in text:
        return
    known = theirs.get_vocab()
    pieces = ours.segment(text)
    ids = theirs.encode(text, add_special_tokens=False).ids
    assert [known[piece] for piece in pieces] == ids
    shown = [piece for piece in pieces if piece != "<unk>"]
    assert ours.join(shown) == theirs.decode([known[piece] for piece in shown], skip_special_tokens=False)


# "´" is normalised to a space and an accent. The accent stands for the first character of the text, so it has ▁ before
# it; in "´ab" it is a word character to `tokenizers`, so "ab" is no word. "ﷺ" is normalised to four words.
@example(
    ("unigram", "nmt_nfkc", "words first", "none", False, False), ["´", "´ab", "ﷺ ab", "\u200b´", "´\u0301", "½ab"]
)
@max_examples(300)
@given(
    st.tuples(
        st.sampled_from(["unigram", "bpe"]),
        st.sampled_from(list(NORMALIZERS)),
        st.sampled_from(list(PRE_TOKENIZERS)),
        st.sampled_from(list(DECODERS)),
        st.booleans(),
        st.booleans(),
    ),
    st.lists(texts, min_size=1, max_size=4),
)
def test_any_text_is_segmented_and_joined_as_by_tokenizers(parts, several):
    for text in several:
        check(parts, text)
