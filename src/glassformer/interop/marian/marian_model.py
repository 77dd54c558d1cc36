"""Import of Marian-NMT models from Marian's own files, such as the students of Firefox Translations and Bergamot.

The computation follows Marian's source. Where other programs' versions of it differ (its sinusoidal positions, its
gelu), Marian's is used.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.decoding.vocabulary_shortlist import Shortlist
from glassformer.errors import DirectoryError
from glassformer.interop.imported_model import ImportedModel
from glassformer.interop.marian.marian_file import Array, MarianFile, is_marian_file, read_marian_file
from glassformer.interop.marian.marian_shortlist import read_marian_shortlist
from glassformer.interop.marian.marian_text import MAX_OPTIONS_BYTES, read_options
from glassformer.interop.marian.vocabulary import marian_tokenizer
from glassformer.interop.name_table import NameTable
from glassformer.interop.untrusted_files import Weights, error_context, inside, read_bytes, renamed
from glassformer.model import ModelConfig
from glassformer.model.directory import with_weights
from glassformer.model.saved_tensor import SavedTensor

TABLES = ("encoder.embedding.weight", "decoder.embedding.weight", "output_projection.weight")
"""Names of the tensors with one row per token."""
UNUSED_ROW_BIAS = -1e4
"""Output bias of rows that are no tokens: probability 0 in any precision, and representable in float16."""
ACTIVATIONS = {"relu": "relu", "swish": "silu", "gelu": "gelu", "sigmoid gelu": "silu"}
LAST_SIGMOID_GELU = (1, 12, 0)
GELU_FACTOR = 1.702
"""Factor of gelu in Marian up to `LAST_SIGMOID_GELU`: silu(1.702 x) / 1.702; the weights absorb the factors."""
DEFAULTS = {
    "transformer-decoder-autoreg": "self-attention",
    "transformer-ffn-activation": "swish",
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-postprocess-top": "",
}
"""Defaults of options that files of older Marian versions lack."""
FIRST_PRE_NORM = (1, 10, 0)
"""First Marian version whose pre-norm is supported: older ones did not normalise keys and values of self-attention."""
PROJECTIONS = (("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("o", "out_proj"))
LINEARS = (
    *((f"self_?{theirs}", f"self_attention.{ours}") for theirs, ours in PROJECTIONS),
    *((f"context_?{theirs}", f"cross_attention.{ours}") for theirs, ours in PROJECTIONS),
    ("ffn_?1", "feed_forward.up_proj"),
    ("ffn_?2", "feed_forward.down_proj"),
    ("rnn_?", "recurrence.candidate_proj"),
    ("rnn_?f", "recurrence.forget_proj"),
)
"""Names of the linear layers, Marian's and ours; ? is W or b."""
NORMS = (("self_Wo", "self_attention_norm"), ("context_Wo", "cross_attention_norm"), ("ffn_ffn", "feed_forward_norm"))
SUPPORTED_VALUES: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention", "rnn"),
    "transformer-ffn-activation": ("relu", "swish", "gelu"),
    "transformer-postprocess-emb": ("", "d", "n", "nd"),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-tied-layers": ([], None),
    "input-types": ([], None, ["sequence", "sequence"]),
    "lemma-dim-emb": (0,),
    "factors-dim-emb": (0,),
    **dict.fromkeys(("transformer-no-projection", "transformer-pool", "layer-normalization", "skip"), (False,)),
    **dict.fromkeys(("ulr", "right-left"), (False,)),
}
"""Marian's options that change the computation, with the values that our model supports."""


def open_marian(path: Path) -> ImportedModel:
    """Import a Marian model from a model file, or from a directory with the file, its vocabularies and options."""
    notes: list[str] = []
    model_file, settings = _locate(path, notes)
    file = read_marian_file(model_file)
    config = read_config(file, model_file)
    notes += _notes(settings, file.options)
    tokenizer, eos_id = marian_tokenizer(model_file, settings.get("vocabs"), config.vocab_size, notes)
    config = config.model_copy(update={"eos_id": eos_id})
    model = with_weights(config, weights_of(file, config, model_file), model_file)
    shortlist = _shortlist_reader(model_file.parent, settings.get("shortlist"), config, notes)
    return ImportedModel("Marian", model, tokenizer, notes, shortlist)


def _shortlist_reader(
    directory: Path, named: Any, config: ModelConfig, notes: list[str]
) -> Callable[[], Shortlist] | None:
    """A reader of the shortlist that the decoder's options name; None, with a note, if it is not readable."""
    if not named:
        return None
    if not isinstance(named, list) or not isinstance(named[0], str) or not named[0].endswith(".bin"):
        notes.append("The model's shortlist is not used: only binary ones (.bin) are read.")
        return None
    path = inside(directory, named[0])
    if not path.exists():
        notes.append(f"The model's shortlist is not used: there is no file {path.name}.")
        return None
    notes.append(f"The model has a shortlist, {path.name}.")
    sizes = (config.source_vocab_size, config.vocab_size)
    return partial(read_marian_shortlist, path, *sizes, is_shared=config.share_embeddings)


def read_config(file: MarianFile, where: Path) -> ModelConfig:
    """Our config from Marian's options; all unsupported options are listed in one error."""
    options = DEFAULTS | file.options
    if unsupported := list(_unsupported(options)):
        raise DirectoryError(f"{where} is a Marian model with unsupported options: {', '.join(unsupported)}.")
    source, target = _tables(file.tensors, where)
    if wrong := list(_contradictions(options, file.tensors)):
        raise DirectoryError(f"{where} does not match its options: {'; '.join(wrong)}.")
    size = max(len(source), len(target)) + 1
    shape = {
        "vocab_size": size,
        "source_vocab_size": size,
        "d_model": options["dim-emb"],
        "n_heads": options.get("transformer-heads", 8),
        "d_ff": options["transformer-dim-ffn"],
        "encoder_layers": options["enc-depth"],
        "decoder_layers": options["dec-depth"],
        "positions": "sinusoidal-fairseq",
        "norm_first": "n" in options["transformer-preprocess"],
        "norm_eps": 1e-6,
        "activation": ACTIVATIONS[_activation(options)],
        "share_embeddings": source is target,
        "tie_output": bool(options.get("tied-embeddings") or options.get("tied-embeddings-all")),
        "embedding_norm": "n" in options["transformer-postprocess-emb"],
        "output_bias": True,
        "decoder_ssru": options["transformer-decoder-autoreg"] == "rnn",
        # Marian starts from a zero vector instead of a token: one more token with zero embedding is padding and start.
        "pad_id": size - 1,
        "bos_id": size - 1,
        "eos_id": 0,
    }
    if "Wpos" in file.tensors:  # Marian decides by the tensor, not by the option
        shape |= {"positions": "learned", "max_positions": len(file.tensors["Wpos"]), "scale_embeddings": False}
    with error_context(where):
        return ModelConfig(**shape)


def marian_names(config: ModelConfig) -> NameTable:
    """The weight mapping: Marian's tensor names and ours."""
    layer, ours = "{stack}_l{n+1}_", "{stack}.layers.{n}."
    kinds, norm_kinds = (("W", "weight"), ("b", "bias")), (("scale", "weight"), ("bias", "bias"))
    pre = "_pre" if config.norm_first else ""
    their_table, stack = ("Wemb", "encoder") if config.share_embeddings else ("{stack}_Wemb", "{stack}")
    norms = [*NORMS, ("rnn" if config.norm_first else "rnn_ffn", "recurrence_norm")]
    return NameTable(
        (their_table, f"{stack}.embedding.weight"),
        ("Wpos", "encoder.position.weight"),
        ("Wpos", "decoder.position.weight"),  # the same table
        ("decoder_ff_logit_out_b", "output_projection.bias"),
        ("decoder_ff_logit_out_Wt", "output_projection.weight"),
        ("decoder_ff_logit_out_W", "output_projection.weight"),
        *((layer + part.replace("?", w), f"{ours}{module}.{kind}") for part, module in LINEARS for w, kind in kinds),
        *((f"{layer}{part}_ln_{w}{pre}", f"{ours}{module}.{kind}") for part, module in norms for w, kind in norm_kinds),
        *((f"{{stack}}_emb_ln_{w}_pre", f"{{stack}}.embedding_norm.{kind}") for w, kind in norm_kinds),
        *((f"{{stack}}_top_ln_{w}", f"{{stack}}.final_norm.{kind}") for w, kind in norm_kinds),
    )


def weights_of(file: MarianFile, config: ModelConfig, where: Path) -> Weights:
    """A Marian file's weights under our names and in our layout, copied out of the mapped file."""
    laid_out = {name: SavedTensor(_laid_out(name, tensor), "float32") for name, tensor in file.tensors.items()}
    weights = renamed(laid_out, marian_names(config), where)
    rows = len(_tables(file.tensors, where)[1])
    bias = weights.setdefault("output_projection.bias", np.zeros(rows, np.float32))  # absent with `output-omit-bias`
    output = weights.get("output_projection.weight")
    if bias.shape != (rows,) or (output is not None and len(output) != rows):
        shapes = f"{list(bias.shape)}" + ("" if output is None else f" and {list(output.shape)}")
        raise DirectoryError(
            f"{where} is damaged: its output (decoder_ff_logit_out) has shape {shapes}, for {rows} tokens."
        )
    if "encoder.position.weight" in weights:
        weights["decoder.position.weight"] = weights["encoder.position.weight"]
    weights["output_projection.bias"] = _padded(bias, config.vocab_size, UNUSED_ROW_BIAS)
    for name in TABLES:
        if name in weights and weights[name].ndim == 2:
            weights[name] = _padded(weights[name], config.vocab_size, 0)
    if _activation(DEFAULTS | file.options) == "sigmoid gelu":
        for name, tensor in weights.items():
            if ".feed_forward.up_proj." in name:
                weights[name] = tensor * np.float32(GELU_FACTOR)
            elif name.endswith(".feed_forward.down_proj.weight"):
                weights[name] = tensor / np.float32(GELU_FACTOR)
    return {name: weights[name] if name in TABLES else np.array(weights[name], order="C") for name in weights}


def _padded(array: Array, rows: int, value: float) -> Array:
    """The array with more rows of this value, up to a number of rows."""
    added = np.full((rows - len(array), *array.shape[1:]), value, np.float32)
    return np.concatenate([array, added])


def _laid_out(name: str, tensor: Array) -> Array:
    """A tensor in our layout: Marian's matrices are [in, out], ours [out, in]; its vectors are matrices of one row."""
    part = name.rsplit("_", 1)[-1]
    if tensor.ndim != 2 or part in ("Wemb", "Wpos", "Wt"):
        return tensor
    if part.startswith("W"):
        return tensor.T
    return tensor[0] if len(tensor) == 1 else tensor


def _tables(tensors: Mapping[str, Array], where: Path) -> tuple[Array, Array]:
    """The embedding tables of source and target, which may be the same tensor."""
    names = ("Wemb", "Wemb") if "Wemb" in tensors else ("encoder_Wemb", "decoder_Wemb")
    if any(name not in tensors or tensors[name].ndim != 2 for name in names):
        raise DirectoryError(
            f"{where} is not a Marian translation model: it has neither Wemb nor both encoder_Wemb and decoder_Wemb."
        )
    return tensors[names[0]], tensors[names[1]]


def _unsupported(options: Mapping[str, Any]) -> Iterator[str]:
    """Marian's options that are not supported, each as `name = value`."""
    for name, values in SUPPORTED_VALUES.items():
        if name in options and options[name] not in values:
            yield f"{name} = {options[name]}"
    if options["transformer-decoder-autoreg"] == "rnn" and options.get("dec-cell") != "ssru":
        yield f"dec-cell = {options.get('dec-cell', 'gru')}"
    if options.get("transformer-decoder-dim-ffn", 0) not in (0, options.get("transformer-dim-ffn")):
        yield f"transformer-decoder-dim-ffn = {options['transformer-decoder-dim-ffn']}"
    if isinstance(languages := options.get("dim-vocabs"), list) and len(languages) not in (0, 2):
        yield f"dim-vocabs = {languages}"
    places = [f"transformer-{place}" for place in ("preprocess", "postprocess", "postprocess-top")]
    steps = [str(options[place]).replace("d", "") for place in places]  # without dropout
    if steps not in (["", "an", ""], ["n", "a", "n"]):
        yield ", ".join(f"{place} = {options[place]!r}" for place in places)
    elif steps[0] == "n" and _version(options) < FIRST_PRE_NORM:
        yield f"transformer-preprocess = n of {options.get('version')}, where keys and values are not normalised"


def _contradictions(options: Mapping[str, Any], tensors: Mapping[str, Array]) -> Iterator[str]:
    """Marian's options whose sizes differ from those of the tensors."""
    hidden = tensors["encoder_l1_ffn_b1"].size if "encoder_l1_ffn_b1" in tensors else 0
    width = (tensors["Wemb"] if "Wemb" in tensors else tensors["decoder_Wemb"]).shape[-1]
    actual = {"dim-emb": width, "transformer-dim-ffn": hidden}
    actual |= {f"{stack[:3]}-depth": _depth(tensors, stack) for stack in ("encoder", "decoder")}
    for name, size in actual.items():
        if options.get(name) != size:
            yield f"{name} is {options.get(name)}, but the tensors have {size}"
    if width % 2 and "Wpos" not in tensors:
        yield f"dim-emb is {width}, but sinusoidal positions need an even number"


def _depth(tensors: Mapping[str, Array], stack: str) -> int:
    numbers = (re.match(rf"{stack}_l([1-9]\d{{0,5}})_", name) for name in tensors)
    return max((int(number[1]) for number in numbers if number), default=0)


def _version(options: Mapping[str, Any]) -> tuple[int, ...]:
    numbers = re.match(r"v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})", str(options.get("version")))
    return tuple(int(number) for number in numbers.groups()) if numbers else (0, 0, 0)


def _activation(options: Mapping[str, Any]) -> str:
    name = str(options["transformer-ffn-activation"])
    return "sigmoid gelu" if name == "gelu" and _version(options) <= LAST_SIGMOID_GELU else name


def _locate(path: Path, notes: list[str]) -> tuple[Path, dict[str, Any]]:
    """Find the model file, and the options of Marian's decoder for it, if there are any."""
    directory = path if path.is_dir() else path.parent
    configured = {
        str(options["models"][0]): options
        for options in _decoder_options(directory, notes)
        if isinstance(options.get("models"), list) and len(options["models"]) == 1
    }
    if not path.is_dir():
        return path, configured.get(path.name, {})
    names = sorted(configured) or sorted(file.name for file in directory.iterdir() if is_marian_file(file))
    if len(names) != 1:
        several = f"several ({', '.join(names[:8])}): give the path of one"
        found = several if names else "none, and no .yml that names one"
        raise DirectoryError(f"{path} should hold one Marian model (.npz or .bin), but holds {found}.")
    return inside(directory, names[0]), configured.get(names[0], {})


def _decoder_options(directory: Path, notes: list[str]) -> Iterator[dict[str, Any]]:
    for path in sorted(directory.glob("*.yml")):
        if "vocab" not in path.name:
            try:
                yield read_options(read_bytes(inside(directory, path.name), MAX_OPTIONS_BYTES), str(path))
            except DirectoryError as error:
                notes.append(f"A file beside the model was ignored: {error}")


def _notes(settings: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[str]:
    search = [f"{name} = {settings[name]}" for name in ("beam-size", "normalize", "word-penalty") if name in settings]
    if search:
        yield f"The model's own search settings are {', '.join(search)}."
    if "n" in str(options.get("transformer-preprocess", "")):
        yield (
            "The model is pre-norm. Some versions of Marian did not normalise the keys and values of self-attention: "
            "if it translates badly, it was trained with such a version."
        )
