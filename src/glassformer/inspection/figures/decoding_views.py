"""Data for the figures of decoding: the KV caches step by step, the next token, the search tree."""

from typing import Any

import torch

from glassformer.errors import InputError
from glassformer.inspection.explanation.token_lookup import position_of
from glassformer.inspection.figures.attention_views import checked_head
from glassformer.inspection.figures.figure_options import FigureOptions
from glassformer.inspection.figures.figure_tokens import source_tokens, target_tokens
from glassformer.inspection.figures.tensor_rows import matrix, rounded_number
from glassformer.inspection.tracing.trace import Trace

NODE_KEYS = ("parent", "text", "probability", "score", "fate")


def decoding_steps_data(trace: Trace, options: FigureOptions) -> dict[str, Any]:
    """Data of the KV cache figure for the renderer: `DecodingStepsData` of frontend/src/figures/types.ts."""
    layer = decoder_layer(trace, options.at)
    head = checked_head(trace, options.head) or 0
    name = f"decoder.layers.{layer}"
    recurrent = trace.config.decoder_ssru
    target_state = trace[f"{name}.recurrence.cell"] if recurrent else trace[f"{name}.self_attention.k"][head]
    return {
        "layer": layer,
        "layers": trace.config.decoder_layers,
        "heads": trace.config.n_heads,
        "head": head,
        "source": source_tokens(trace),
        "target": target_tokens(trace),
        "crossK": matrix(trace[f"{name}.cross_attention.k"][head]),
        "selfK": matrix(target_state),
        "recurrent": recurrent,
    }


def decoder_layer(trace: Trace, at: str | None) -> int:
    """Index of the decoder layer that a name refers to; by default the last."""
    layers = trace.config.decoder_layers
    if at is None:
        return layers - 1
    for layer in range(layers):
        if f"{at}.".startswith(f"decoder.layers.{layer}."):
            return layer
    raise InputError(f"{at!r} is not part of a decoder layer (decoder.layers.0 to decoder.layers.{layers - 1}).")


def softmax_data(trace: Trace, options: FigureOptions) -> dict[str, Any]:
    """Data of the next-token figure for the renderer: `SoftmaxData` of frontend/src/figures/types.ts."""
    if options.token is None:
        position = int(trace["output.entropy"].argmax())
    else:
        position = position_of(options.token, trace.target)
    logits = trace["output.likeliest_logits"][position].double()
    probabilities = (logits - trace["output.log_normaliser"][position].double()).exp().tolist()
    likeliest = list(zip(trace["output.likeliest"][position].tolist(), probabilities, strict=True))
    written = trace.about.target.ids[position]
    written_probability = float(trace["output.log_probability"][position].double().exp())
    shown = likeliest[: options.likeliest]
    if written not in dict(shown):
        shown = [*shown[: options.likeliest - 1], (written, written_probability)]
    rest = max(0.0, 1 - sum(probability for _, probability in shown))
    return {
        "position": position,
        "positions": trace.steps,
        "before": trace.reads[: position + 1],
        "written": trace.target[position],
        "writtenProbability": rounded_number(written_probability),
        "likeliest": [
            {"text": trace.piece(token), "probability": rounded_number(probability), "written": token == written}
            for token, probability in shown
        ],
        "rest": {"count": trace.config.vocab_size - len(shown), "probability": round(rest, 4)},
        "entropy": rounded_number(float(trace["output.entropy"][position])),
    }


def beam_data(trace: Trace, options: FigureOptions) -> dict[str, Any]:
    """Data of the search tree figure for the renderer: `BeamData` of frontend/src/figures/types.ts."""
    tree = trace.tree
    if tree is None:
        raise InputError(
            "This trace has no search tree, because its target was given. Trace the sentence again without a target "
            "(--target)."
        )
    probabilities = map(rounded_number, torch.tensor(tree.log_probability, dtype=torch.float64).exp().tolist())
    texts, scores = map(trace.piece, tree.token), map(rounded_number, tree.score)
    nodes = zip(tree.parent, texts, probabilities, scores, tree.fate, strict=True)
    finished = tree.finished
    return {
        "size": trace.about.search.width,
        "lengthPenalty": tree.length_penalty,
        "nodes": [dict(zip(NODE_KEYS, node, strict=True)) for node in nodes],
        "finished": finished,
        "followed": finished[trace.about.hypothesis] if trace.about.hypothesis < len(finished) else None,
    }
