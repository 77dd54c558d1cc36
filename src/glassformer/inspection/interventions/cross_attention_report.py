"""Whose W_K and W_V does the decoder's cross-attention use? The answer as text and JSON, from a model's own numbers."""

from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from glassformer.inspection.interventions.cross_attention_matrices import (
    Matrices,
    MatrixExchange,
    MatrixSourceResult,
    choices,
    in_words,
    with_matrices,
)
from glassformer.inspection.tracing.record import Recording, record
from glassformer.model import Transformer
from glassformer.model.attention import split_heads
from glassformer.text_layout import columns, paragraph


def whose_keys_and_values(model: Transformer, source: Tensor) -> str:
    """Text that shows whose W_K and W_V the decoder uses, recorded while it translates one source (ids, 1 S)."""
    with record(model, "memory", "decoder.*_attention.k", "logits") as recording:
        target = _greedy(model, source)
    with_encoder_matrices = with_matrices(model, choices(model.config)[1])
    with torch.no_grad():
        at_once = model(source, target[:, :-1])[:, -1]
        exchanged = _gap(with_encoder_matrices(source, target[:, :-1])[:, -1], at_once)
    stepwise = _gap(recording["logits"][:, -1], at_once)
    tokens = target.shape[1] - 1
    computed = (
        "The encoder ran once. From its output each decoder layer computed K and V with its own W_K and W_V, once for "
        f"the sentence; only the keys of its self-attention were computed anew for each of the {tokens} tokens."
    )
    compared = (
        f"Decoded one token at a time or all at once, the logits differ by at most {stepwise}. With the top encoder "
        f"layer's W_K and W_V in place of the decoder's own, they differ by {exchanged}."
    )
    return "\n\n".join((_key_table(model, recording), paragraph(computed), paragraph(compared)))


def _greedy(model: Transformer, source: Tensor) -> Tensor:
    target = source.new_full((1, 1), model.config.bos_id)
    state = model.start(source)
    while target[0, -1] != model.config.eos_id and target.shape[1] <= 2 * source.shape[1] + 10:
        newest = model.step(target[:, -1:], state)[:, -1:].argmax(dim=-1)
        target = torch.cat((target, newest), dim=1)
    return target


def _key_table(model: Transformer, recording: Recording) -> str:
    rows = [("K of the source in", "computed", "differs from memory × own W_K", "from layer 0's K", "K of the target")]
    first = recording["decoder.layers.0.cross_attention.k"]
    for i, layer in enumerate(model.decoder.layers):
        source_keys = recording.all(f"decoder.layers.{i}.cross_attention.k")
        recomputed = split_heads(layer.cross_attention.k_proj(recording["memory"]), model.config.n_heads)
        target_keys = recording.all(f"decoder.layers.{i}.self_attention.k")
        own, other = _gap(source_keys[-1], recomputed), _gap(source_keys[-1], first)
        rows.append((f"decoder layer {i}", f"{len(source_keys)} time", own, other, f"{len(target_keys)} times"))
    return columns(rows, "lrrrr")


def _gap(a: Tensor, b: Tensor) -> str:
    return short((a - b).abs().max().item())


def short(gap: float) -> str:
    return "0" if gap == 0 else f"{gap:.1e}" if gap < 0.001 else f"{gap:.2f}"


def exchange_text(result: MatrixExchange) -> str:
    """Table of the effect on translations of computing K and V with other matrices."""
    translations = "given translations" if result.given else "its own greedy translations"
    rows = [("K and V made with W_K, W_V of", "log p per token", "top-1", "same output")]
    rows += [
        (
            f"{row.choice.name}{' (= own)' if row.own and row is not result.own else ''}",
            f"{row.log_probability:.3f}",
            f"{100 * row.likeliest / result.tokens:.1f} %",
            f"{row.same} of {result.sentences}",
        )
        for row in result.rows
    ]
    notes = [f"({row.choice.name}: {row.choice.note})" for row in result.rows if row.choice.note]
    heading = f"{result.sentences} sentences; log p of the {result.tokens} tokens of {translations}."
    return "\n".join((heading, "", columns(rows, "lrrr"), *notes))


def matrices_text(result: MatrixExchange) -> str:
    """Table of each layer's W_K and W_V compared with others', and its K and V recomputed."""
    rows = [
        ("cosine of W_K, W_V", "with the top", "with decoder", "K, V differ,", "‖K - K₀‖"),
        ("", "encoder layer's", "layer 0's", "recomputed", "÷ ‖K₀‖"),
    ]
    for i, layer in enumerate(result.matrices):
        encoder, first = (", ".join(f"{x:.3f}" for x in pair) for pair in (layer.cosine_encoder, layer.cosine_first))
        rows.append((f"decoder layer {i}", encoder, first, short(max(layer.differs)), f"{layer.from_first:.2f}"))
    return "\n".join((columns(rows, "lrrrr"), "", *map(paragraph, _sharing(result.matrices))))


def _sharing(matrices: list[Matrices]) -> list[str]:
    """One sentence per W_K or W_V whose storage is shared with another."""
    lines = [
        f"Decoder layer {i}'s {letter} shares its memory with that of {', '.join(names)}."
        for i, layer in enumerate(matrices)
        for letter, names in (("W_K", layer.shared_k), ("W_V", layer.shared_v))
        if names
    ]
    return lines or ["None of these matrices shares its memory with another."]


def answer_text(result: MatrixExchange) -> str:
    """Whose W_K and W_V cross-attention uses, as text: both tables and the conclusion."""
    return "\n".join((exchange_text(result), "", matrices_text(result), "", paragraph(in_words(result))))


def answer_json(result: MatrixExchange) -> dict[str, Any]:
    """Whose W_K and W_V cross-attention uses, as a JSON object."""
    return asdict(result) | {"rows": [_row_json(row) for row in result.rows], "in_words": in_words(result)}


def _row_json(row: MatrixSourceResult) -> dict[str, Any]:
    numbers = {name: getattr(row, name) for name in ("own", "log_probability", "likeliest", "same")}
    return {"made_with": row.choice.name, "taken": row.choice.taken} | numbers
