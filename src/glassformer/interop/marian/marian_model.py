"""Models of Marian-NMT in Marian's own files, among them the students of Firefox Translations and Bergamot.

What Marian computes is read from its source. Where that differs from what others made of it (the waves of its
positions, its gelu), Marian counts.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import DirectoryError
from glassformer.interop.imported import ImportedModel
from glassformer.interop.marian.marian_file import MarianFile, is_marian_file, read_marian_file
from glassformer.interop.marian.marian_text import LARGEST_OPTIONS, read_options
from glassformer.interop.marian.vocabulary import marian_tokenizer
from glassformer.interop.name_table import NameTable
from glassformer.interop.untrusted_files import inside, naming, read_bytes, renamed
from glassformer.model import ModelConfig
from glassformer.model.directory import with_weights

TABLES = ("encoder.embedding.weight", "decoder.embedding.weight", "output_projection.weight")
"""A row for each token."""
NEVER = -1e4
"""The bias of rows that are no tokens: their probability is 0 in any precision, and float16 can hold the number."""
ACTIVATIONS = {"relu": "relu", "swish": "silu", "gelu": "gelu", "rough gelu": "silu"}
LAST_ROUGH_GELU = (1, 12, 0)
GELU = 1.702
"""What Marian called gelu until then is x σ(1.702 x) = silu(1.702 x) / 1.702; the factors go into the matrices."""
DEFAULTS = {
    "transformer-decoder-autoreg": "self-attention",
    "transformer-ffn-activation": "swish",
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-postprocess-top": "",
}
"""What options mean that a file of an older Marian does not name."""
FIRST_PRE_NORM = (1, 10, 0)
"""Older ones left keys and values of self-attention without norm where norms come first."""
OF_ATTENTION = (("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("o", "out_proj"))
PRODUCTS = (
    *((f"self_?{theirs}", f"self_attention.{ours}") for theirs, ours in OF_ATTENTION),
    *((f"context_?{theirs}", f"cross_attention.{ours}") for theirs, ours in OF_ATTENTION),
    ("ffn_?1", "feed_forward.up_proj"),
    ("ffn_?2", "feed_forward.down_proj"),
    ("rnn_?", "recurrence.candidate_proj"),
    ("rnn_?f", "recurrence.forget_proj"),
)
"""The parts of a layer that multiply; ? is W or b."""
NORMS = (
    ("self_Wo", "self_attention_norm"),
    ("context_Wo", "cross_attention_norm"),
    ("ffn_ffn", "feed_forward_norm"),
)
HELD: dict[str, tuple[Any, ...]] = {
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
"""The options that decide what is computed, with the values that our model can hold."""


def open_marian(path: Path) -> ImportedModel:
    """From a model file, or from a directory with one and what belongs to it."""
    notes: list[str] = []
    model_file, settings = _found(path, notes)
    file = read_marian_file(model_file)
    config = read_config(file, model_file)
    notes += _notes(settings, file.options)
    tokenizer, eos_id = marian_tokenizer(model_file, settings.get("vocabs"), config.vocab_size, notes)
    config = config.model_copy(update={"eos_id": eos_id})
    model = with_weights(config, weights_of(file, config, model_file), model_file)
    return ImportedModel("Marian", model, tokenizer, notes)


def read_config(file: MarianFile, where: Path) -> ModelConfig:
    """What kind of Transformer it is. All options that ours cannot have are named together."""
    options = DEFAULTS | file.options
    if refused := list(_unsupported(options)):
        raise DirectoryError(f"{where} is a Marian model of a kind that cannot be opened: {', '.join(refused)}.")
    source, target = _tables(file.tensors, where)
    if wrong := list(_contradictions(options, file.tensors)):
        raise DirectoryError(f"{where} does not hold what its options say: {'; '.join(wrong)}.")
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
        # Marian starts from zeros instead of a token. One more token, which is nothing, is padding and start.
        "pad_id": size - 1,
        "bos_id": size - 1,
        "eos_id": 0,
    }
    if "Wpos" in file.tensors:  # the option that names it is not what Marian looks at
        shape |= {"positions": "learned", "max_positions": len(file.tensors["Wpos"]), "scale_embeddings": False}
    with naming(where):
        return ModelConfig(**shape)


def marian_names(config: ModelConfig) -> NameTable:
    """Marian's names of tensors, and ours."""
    layer, ours = "{stack}_l{n+1}_", "{stack}.layers.{n}."
    kinds, norm_kinds = (("W", "weight"), ("b", "bias")), (("scale", "weight"), ("bias", "bias"))
    pre = "_pre" if config.norm_first else ""
    norms = [*NORMS, ("rnn" if config.norm_first else "rnn_ffn", "recurrence_norm")]
    return NameTable(
        ("Wemb", "encoder.embedding.weight")
        if config.share_embeddings
        else ("{stack}_Wemb", "{stack}.embedding.weight"),
        ("Wpos", "encoder.position.weight"),
        ("Wpos", "decoder.position.weight"),  # the same one
        ("decoder_ff_logit_out_b", "output_projection.bias"),
        ("decoder_ff_logit_out_Wt", "output_projection.weight"),
        ("decoder_ff_logit_out_W", "output_projection.weight"),
        *((layer + part.replace("?", w), f"{ours}{own}.{kind}") for part, own in PRODUCTS for w, kind in kinds),
        *((f"{layer}{part}_ln_{w}{pre}", f"{ours}{own}.{kind}") for part, own in norms for w, kind in norm_kinds),
        *((f"{{stack}}_emb_ln_{w}_pre", f"{{stack}}.embedding_norm.{kind}") for w, kind in norm_kinds),
        *((f"{{stack}}_top_ln_{w}", f"{{stack}}.final_norm.{kind}") for w, kind in norm_kinds),
    )


def weights_of(file: MarianFile, config: ModelConfig, where: Path) -> dict[str, Tensor]:
    """The weights under our names and in our layout, none of them mapped from the file any more."""
    laid_out = {name: _laid_out(name, tensor) for name, tensor in file.tensors.items()}
    found = renamed(laid_out, marian_names(config), where)
    rows = len(_tables(file.tensors, where)[1])
    bias = found.setdefault("output_projection.bias", torch.zeros(rows))  # `output-omit-bias`: none is 0
    output = found.get("output_projection.weight")
    if bias.shape != (rows,) or (output is not None and len(output) != rows):
        shapes = f"{list(bias.shape)}" + ("" if output is None else f" and {list(output.shape)}")
        raise DirectoryError(f"{where} is damaged: its output (decoder_ff_logit_out) is {shapes}, for {rows} tokens.")
    if "encoder.position.weight" in found:
        found["decoder.position.weight"] = found["encoder.position.weight"]
    found["output_projection.bias"] = torch.cat([bias, torch.full((config.vocab_size - rows,), NEVER)])
    for name in TABLES:
        if name in found and found[name].dim() == 2:
            added = torch.zeros(config.vocab_size - len(found[name]), found[name].shape[1])
            found[name] = torch.cat([found[name], added])
    if _activation(DEFAULTS | file.options) == "rough gelu":
        for name, tensor in found.items():
            if ".feed_forward.up_proj." in name:
                found[name] = tensor * GELU
            elif name.endswith(".feed_forward.down_proj.weight"):
                found[name] = tensor / GELU
    whole = torch.contiguous_format
    return {name: found[name] if name in TABLES else found[name].clone(memory_format=whole) for name in found}


def _laid_out(name: str, tensor: Tensor) -> Tensor:
    """Marian's matrices are [in, out], ours [out, in]; its vectors are matrices of one row."""
    part = name.rsplit("_", 1)[-1]
    if tensor.dim() != 2 or part in ("Wemb", "Wpos", "Wt"):
        return tensor
    if part.startswith("W"):
        return tensor.T
    return tensor[0] if len(tensor) == 1 else tensor


def _tables(tensors: Mapping[str, Tensor], where: Path) -> tuple[Tensor, Tensor]:
    """The embeddings of source and target, which may be one."""
    names = ("Wemb", "Wemb") if "Wemb" in tensors else ("encoder_Wemb", "decoder_Wemb")
    if any(name not in tensors or tensors[name].dim() != 2 for name in names):
        raise DirectoryError(
            f"{where} is no translation model of Marian: it has no Wemb, or no encoder_Wemb and decoder_Wemb."
        )
    return tensors[names[0]], tensors[names[1]]


def _unsupported(options: Mapping[str, Any]) -> Iterator[str]:
    """Each as `name = value`."""
    for name, values in HELD.items():
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
        yield f"transformer-preprocess = n of {options.get('version')}, where keys and values go without norm"


def _contradictions(options: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Iterator[str]:
    """Sizes are believed only where tensors have them."""
    hidden = tensors.get("encoder_l1_ffn_b1", torch.empty(0)).numel()
    width = tensors.get("Wemb", tensors.get("decoder_Wemb", torch.empty(0, 0))).shape[-1]
    depths = {stack: _deepest(tensors, stack) for stack in ("encoder", "decoder")}
    real = {
        "dim-emb": width,
        "transformer-dim-ffn": hidden,
        "enc-depth": depths["encoder"],
        "dec-depth": depths["decoder"],
    }
    for name, size in real.items():
        if options.get(name) != size:
            yield f"{name} is {options.get(name)}, and the tensors say {size}"
    if width % 2 and "Wpos" not in tensors:
        yield f"dim-emb is {width}, and waves come in pairs"


def _deepest(tensors: Mapping[str, Tensor], stack: str) -> int:
    numbers = (re.match(rf"{stack}_l([1-9]\d{{0,5}})_", name) for name in tensors)
    return max((int(number[1]) for number in numbers if number), default=0)


def _version(options: Mapping[str, Any]) -> tuple[int, ...]:
    numbers = re.match(r"v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})", str(options.get("version")))
    return tuple(int(number) for number in numbers.groups()) if numbers else (0, 0, 0)


def _activation(options: Mapping[str, Any]) -> str:
    name = str(options["transformer-ffn-activation"])
    return "rough gelu" if name == "gelu" and _version(options) <= LAST_ROUGH_GELU else name


def _found(path: Path, notes: list[str]) -> tuple[Path, dict[str, Any]]:
    """The model file, and the options of Marian's decoder that belong to it, if any do."""
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
        many = f"several ({', '.join(names[:8])}): name the file" if names else "none, and no .yml that names one"
        raise DirectoryError(f"{path} should hold one Marian model, a .npz or .bin, and holds {many}.")
    return inside(directory, names[0]), configured.get(names[0], {})


def _decoder_options(directory: Path, notes: list[str]) -> Iterator[dict[str, Any]]:
    for path in sorted(directory.glob("*.yml")):
        if "vocab" not in path.name:
            try:
                yield read_options(read_bytes(inside(directory, path.name), LARGEST_OPTIONS), str(path))
            except DirectoryError as error:
                notes.append(f"A file beside the model is passed over: {error}")


def _notes(settings: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[str]:
    said = [f"{name} = {settings[name]}" for name in ("beam-size", "normalize", "word-penalty") if name in settings]
    if said:
        yield f"Its makers search with {', '.join(said)}."
    if settings.get("shortlist"):
        yield "Its shortlist is not used: every token may come."
    if "n" in str(options.get("transformer-preprocess", "")):
        yield (
            "Its norms come first. Some versions of Marian left keys and values of self-attention without theirs: "
            "if it translates badly, it was trained with such a one."
        )
