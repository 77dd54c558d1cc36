"""Import of state dicts from notebook 6 of bentrevett's pytorch-seq2seq, "Attention is All You Need".

The file (`torch.save(model.state_dict(), ...)`) determines everything but the number of heads, and has no vocabulary:
that stays in the notebook.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.interop.imported_model import ImportedModel
from glassformer.interop.name_table import NameTable
from glassformer.interop.untrusted_files import Weights, error_context, matrix_shape, renamed
from glassformer.model import ModelConfig
from glassformer.model.directory import with_weights
from glassformer.model.saved_tensor import SavedTensor

UNKNOWN, PAD, START, END = range(4)
"""Ids of the special tokens in the notebook's vocabularies."""
DEFAULT_HEADS = 8
LAYER = "{stack}.layers.{n}"
PROJECTIONS = {"fc_q": "q_proj", "fc_k": "k_proj", "fc_v": "v_proj", "fc_o": "out_proj"}
NAMES = NameTable(
    ("{stack}.tok_embedding.weight", "{stack}.embedding.weight"),
    ("{stack}.pos_embedding.weight", "{stack}.position.weight"),
    *(
        (f"{LAYER}.{theirs}.{their_proj}.{{kind}}", f"{LAYER}.{ours}.{our_proj}.{{kind}}")
        for theirs, ours in (("self_attention", "self_attention"), ("encoder_attention", "cross_attention"))
        for their_proj, our_proj in PROJECTIONS.items()
    ),
    (f"{LAYER}.self_attn_layer_norm.{{kind}}", f"{LAYER}.self_attention_norm.{{kind}}"),
    (f"{LAYER}.enc_attn_layer_norm.{{kind}}", f"{LAYER}.cross_attention_norm.{{kind}}"),
    (f"{LAYER}.ff_layer_norm.{{kind}}", f"{LAYER}.feed_forward_norm.{{kind}}"),
    (f"{LAYER}.positionwise_feedforward.fc_1.{{kind}}", f"{LAYER}.feed_forward.up_proj.{{kind}}"),
    (f"{LAYER}.positionwise_feedforward.fc_2.{{kind}}", f"{LAYER}.feed_forward.down_proj.{{kind}}"),
    ("decoder.fc_out.{kind}", "output_projection.{kind}"),
)


def is_tutorial(saved: Mapping[str, Any]) -> bool:
    """Whether a state dict is the notebook's model."""
    return "encoder.layers.0.self_attention.fc_q.weight" in saved


def open_tutorial(saved: Mapping[str, Any], path: Path, heads: int | None = None) -> ImportedModel:
    """Import the notebook's state dict; `heads` is the notebook's number if not given."""
    tensors = {name: tensor for name, tensor in saved.items() if isinstance(tensor, SavedTensor)}
    weights = renamed(tensors, NAMES, path)
    model = with_weights(read_config(weights, path, heads or DEFAULT_HEADS), weights, where=path)
    notes = ["The file has no vocabulary: the model takes token ids, not text."]
    if heads is None:
        notes.append(
            f"The file does not store the number of heads: the notebook's {DEFAULT_HEADS} are assumed (see --heads)."
        )
    return ImportedModel("pytorch-seq2seq tutorial", model, None, notes)


def read_config(weights: Weights, path: Path, heads: int) -> ModelConfig:
    """Our config, read from the shapes of the notebook's weights."""

    def shape(name: str) -> tuple[int, int]:
        return matrix_shape(weights, name, path)

    def layers(stack: str) -> int:
        return len({name.split(".")[2] for name in weights if name.startswith(f"{stack}.layers.")})

    settings: dict[str, Any] = {
        "source_vocab_size": shape("encoder.embedding.weight")[0],
        "vocab_size": shape("decoder.embedding.weight")[0],
        "d_model": shape("encoder.embedding.weight")[1],
        "n_heads": heads,
        "d_ff": shape("encoder.layers.0.feed_forward.up_proj.weight")[0],
        "encoder_layers": layers("encoder"),
        "decoder_layers": layers("decoder"),
        "positions": "learned",
        "max_positions": shape("encoder.position.weight")[0],
        "share_embeddings": False,
        "tie_output": False,
        "output_bias": True,
        "pad_id": PAD,
        "bos_id": START,
        "eos_id": END,
    }
    with error_context(path):
        return ModelConfig(**settings)
