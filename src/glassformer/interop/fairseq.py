"""Import of fairseq's Transformer: checkpoint, two dictionaries, segmentation (subword-nmt or SentencePiece)."""

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from glassformer.data import ImportedTokenizer, ImportedTokenizerSettings
from glassformer.data.imported_tokenizer import pieces_by_id
from glassformer.data.subword_segmentation import SegmenterKind
from glassformer.data.tokenizer import SIDES, Side
from glassformer.errors import DataError, InputError
from glassformer.interop.bounded_files import read_lines, read_merges, read_spm
from glassformer.interop.fairseq_names import SPECIAL_TOKENS, fairseq_names
from glassformer.interop.imported_model import ImportedModel
from glassformer.interop.imported_options import ImportedOptions
from glassformer.interop.untrusted_files import (
    Weights,
    error_context,
    inside,
    matrix_shape,
    read_bytes,
    renamed,
    tensors_equal,
)
from glassformer.model import ModelConfig
from glassformer.model.directory import listed, with_weights
from glassformer.model.saved_tensor import SavedTensor

NAMES = fairseq_names("", ("decoder.output_projection.weight", "output_projection.weight"))
STACKS = ("encoder", "decoder")
IGNORED_TENSORS = tuple(f"{stack}.{name}" for stack in STACKS for name in ("version", "embed_positions._float_tensor"))
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_fast": "gelu-tanh", "gelu_accurate": "gelu-tanh", "swish": "silu"}
PAD, EOS = 1, 2


def is_fairseq(saved: Mapping[str, Any]) -> bool:
    """Whether a checkpoint is fairseq's."""
    return isinstance(saved.get("model"), dict) and ("args" in saved or "cfg" in saved)


def open_fairseq(
    saved: Mapping[str, Any], path: Path, source: str | None = None, target: str | None = None
) -> ImportedModel:
    """Import the checkpoint at `path`; `source` and `target` select the dictionaries if the checkpoint does not."""
    options = read_options(saved, path)
    tensors = {name: tensor for name, tensor in saved["model"].items() if isinstance(tensor, SavedTensor)}
    weights = renamed(tensors, NAMES, path, IGNORED_TENSORS)
    with error_context(path):
        config = read_config(options, weights)
    model = with_weights(config, weights, where=path)
    languages = {"source": source or options.get("source_lang"), "target": target or options.get("target_lang")}
    with error_context(path.parent):
        tokenizer = read_tokenizer(path.parent, config, languages)
    notes = [] if tokenizer else ["No dict.*.txt was found near the checkpoint: the model takes token ids, not text."]
    return ImportedModel("fairseq", model, tokenizer, notes)


def read_options(saved: Mapping[str, Any], path: Path) -> ImportedOptions:
    """fairseq's training options: from `cfg` in newer versions, else `args`; both use the names of the command line."""
    cfg = saved["cfg"] if isinstance(saved.get("cfg"), dict) else {}
    options: dict[str, Any] = {}
    for part in (cfg.get("task"), cfg.get("model"), saved.get("args")):
        options |= part if isinstance(part, dict) else {}
    return ImportedOptions(options, str(path))


def read_config(options: ImportedOptions, weights: Weights) -> ModelConfig:
    """Our config from fairseq's options; of shared matrices, `weights` keeps one."""
    options.require(
        no_cross_attention=False,
        cross_self_attention=False,
        layer_wise_attention=False,
        no_token_positional_embeddings=False,
        adaptive_softmax_cutoff=None,
        adaptive_input=False,
        char_inputs=False,
        no_decoder_final_norm=False,
        quant_noise_pq=0,
    )
    if isinstance(options.get("decoder_output_dim"), int):
        options.same("decoder_output_dim", "decoder_embed_dim")
    share, tie = _take_shared(weights)
    source = matrix_shape(weights, "encoder.embedding.weight", options.where)[0]
    norm_first = options.same("encoder_normalize_before", "decoder_normalize_before")
    return ModelConfig(
        source_vocab_size=source,
        vocab_size=source if share else matrix_shape(weights, "decoder.embedding.weight", options.where)[0],
        d_model=options.same("encoder_embed_dim", "decoder_embed_dim"),
        n_heads=options.same("encoder_attention_heads", "decoder_attention_heads"),
        d_ff=options.same("encoder_ffn_embed_dim", "decoder_ffn_embed_dim"),
        encoder_layers=options["encoder_layers"],
        decoder_layers=options["decoder_layers"],
        norm_first=norm_first,
        embedding_norm=options.get("layernorm_embedding", False),
        scale_embeddings=not options.get("no_scale_embedding", False),
        share_embeddings=share,
        tie_output=tie,
        dropout=options.get("dropout", 0.1),
        attention_dropout=options.get("attention_dropout", 0.0),
        activation_dropout=options.get("activation_dropout", 0.0) or options.get("relu_dropout", 0.0),
        pad_id=PAD,
        bos_id=EOS,  # fairseq starts a target with the end token
        eos_id=EOS,
        **{"activation": options.choice("activation_fn", ACTIVATIONS, "relu"), **_positions(options, weights)},
    )


def read_tokenizer(directory: Path, config: ModelConfig, languages: dict[str, Any]) -> ImportedTokenizer | None:
    """Read the tokenizer: dict.SOURCE.txt and dict.TARGET.txt near the checkpoint, and a segmentation model.

    None without dictionaries.
    """
    for place in _places(directory):
        files = {path.name.split(".")[1]: path for path in sorted(place.glob("dict.*.txt"))}
        if files:
            break
    else:
        return None
    sizes: dict[Side, int] = {"source": config.source_vocab_size, "target": config.vocab_size}
    chosen = _chosen(files, sizes, languages, place)
    ids = {side: _dictionary(chosen[side], max(sizes.values())) for side in SIDES}
    cut, segmentation = _segmentation(_places(directory), sum(sizes.values()))
    special: dict[str, Any] = {"after_source": ["</s>"], "after_target": ["</s>"], "hidden": ["<s>", "<pad>"]}
    settings = ImportedTokenizerSettings(cut=cut, joint=config.share_embeddings, **special)
    vocabularies = {side: pieces_by_id(ids[side], sizes[side]) for side in SIDES}
    return ImportedTokenizer(settings, vocabularies, dict.fromkeys(SIDES, segmentation))


def _take_shared(weights: Weights) -> tuple[bool, bool]:
    """Detect whether embeddings are shared and the output is tied; duplicates are removed from `weights`."""
    source, target, output = "encoder.embedding.weight", "decoder.embedding.weight", "output_projection.weight"
    share = tensors_equal(weights, source, target)
    tie = output not in weights or tensors_equal(weights, output, target)
    if tie:
        weights.pop(output, None)
    if share:
        del weights[target]
    return share, tie


def _positions(options: ImportedOptions, weights: Weights) -> dict[str, Any]:
    if not options.same("encoder_learned_pos", "decoder_learned_pos"):
        return {"positions": "sinusoidal-fairseq", "position_offset": PAD + 1}
    rows = {stack: matrix_shape(weights, f"{stack}.position.weight", options.where)[0] for stack in STACKS}
    if len(set(rows.values())) > 1:
        raise InputError(
            f"{options.where} has {rows['encoder']} encoder and {rows['decoder']} decoder positions: only models with "
            "the same number of both are supported."
        )
    return {"positions": "learned", "position_offset": PAD + 1, "max_positions": rows["encoder"]}


def _places(directory: Path) -> Iterator[Path]:
    """Directories to search for a run's files: the checkpoint's, its parent, and data folders in either."""
    yield directory
    yield directory.parent
    for near in (directory, directory.parent):
        yield from (near / name for name in ("data", "data-bin") if (near / name).is_dir())


def _chosen(files: dict[str, Path], sizes: dict[Side, int], languages: dict[str, Any], place: Path) -> dict[Side, Path]:
    """Choose the dictionary file of each side: by the language names, or by the dictionary sizes if these differ."""
    if all(isinstance(languages[side], str) and languages[side] in files for side in SIDES):
        return {side: files[languages[side]] for side in SIDES}
    lengths = {name: len(_dictionary(path, max(sizes.values()))) for name, path in files.items()}
    fitting = {side: [name for name, length in lengths.items() if length == sizes[side]] for side in SIDES}
    if any(len(names) != 1 for names in fitting.values()):
        raise InputError(
            f"{place} has dictionaries for {listed(files)}: choose two with --source-language and --target-language."
        )
    return {side: files[fitting[side][0]] for side in SIDES}


def _dictionary(path: Path, limit: int) -> dict[str, int]:
    """Read token ids from a dictionary file with `token count` per line: line numbers, after the special tokens.

    Reading stops after `limit` tokens and one more, which shows that there are too many.
    """
    ids = {piece: i for i, piece in enumerate(SPECIAL_TOKENS)}
    for line in read_lines(read_bytes(inside(path.parent, path.name)), str(path)):
        if not line.strip():
            continue
        piece, _, count = line.removesuffix(" #fairseq:overwrite").rpartition(" ")
        if not piece or not count.strip().isdigit():
            raise DataError(f"{path.name} has a line that is not a token and its count: {line[:40]!r}.")
        ids[piece] = len(ids) if piece not in ids else ids[piece]
        if len(ids) > limit:
            break
    return ids


def _segmentation(places: Iterator[Path], vocab_size: int) -> tuple[SegmenterKind, bytes]:
    """Find the kind of segmentation and its file: BPE codes, a SentencePiece model, or neither (whitespace)."""
    kinds: dict[str, SegmenterKind] = {"*bpe*code*": "subword-nmt", "code*": "subword-nmt", "*.model": "sentencepiece"}
    for place, (pattern, cut) in product(places, kinds.items()):
        for path in filter(Path.is_file, sorted(place.glob(pattern))):
            read = read_spm if cut == "sentencepiece" else read_merges
            return cut, read(inside(place, path.name), vocab_size)
    return "words", b""
