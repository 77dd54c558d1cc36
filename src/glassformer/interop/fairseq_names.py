"""fairseq's tensor names, which Hugging Face's Marian, BART, mBART, Pegasus and M2M100 use with the prefix `model.`."""

from glassformer.interop.name_table import NameTable

SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>")
"""The first tokens of every fairseq dictionary; its files do not list them."""


def fairseq_names(prefix: str, *more: tuple[str, str]) -> NameTable:
    """Table of fairseq's tensor names, which begin with `prefix`, and ours; the `more` rows come first."""
    layer = f"{prefix}{{stack}}.layers.{{n}}"
    ours = "{stack}.layers.{n}"
    return NameTable(
        *more,
        (f"{prefix}{{stack}}.embed_tokens.weight", "{stack}.embedding.weight"),
        (f"{prefix}{{stack}}.embed_positions.weight", "{stack}.position.weight"),
        (f"{prefix}{{stack}}.layernorm_embedding.{{kind}}", "{stack}.embedding_norm.{kind}"),
        (f"{prefix}{{stack}}.layer_norm.{{kind}}", "{stack}.final_norm.{kind}"),
        (f"{layer}.self_attn.{{proj}}.{{kind}}", f"{ours}.self_attention.{{proj}}.{{kind}}"),
        (f"{layer}.encoder_attn.{{proj}}.{{kind}}", f"{ours}.cross_attention.{{proj}}.{{kind}}"),
        (f"{layer}.self_attn_layer_norm.{{kind}}", f"{ours}.self_attention_norm.{{kind}}"),
        (f"{layer}.encoder_attn_layer_norm.{{kind}}", f"{ours}.cross_attention_norm.{{kind}}"),
        (f"{layer}.final_layer_norm.{{kind}}", f"{ours}.feed_forward_norm.{{kind}}"),
        (f"{layer}.fc1.{{kind}}", f"{ours}.feed_forward.up_proj.{{kind}}"),
        (f"{layer}.fc2.{{kind}}", f"{ours}.feed_forward.down_proj.{{kind}}"),
    )
