"""Whose W_K and W_V does the decoder use? Asked of a running model, and checked with its own numbers."""

from typing import TYPE_CHECKING, Any

from glassformer.cli.text_layout import columns, paragraph

if TYPE_CHECKING:
    from torch import Tensor

    from glassformer.inspection import Recording
    from glassformer.inspection.interventions.cross_attention_matrices import KeysValues, Matrices, MatrixSourceResult
    from glassformer.model import Transformer


def whose_keys_and_values(model: "Transformer", source: "Tensor") -> str:
    """The answer as text: the model translates one source (ids, 1 S) while we listen."""
    import torch

    from glassformer.inspection import record
    from glassformer.inspection.interventions.cross_attention_matrices import choices, with_matrices

    with record(model, "memory", "decoder.*_attention.k", "logits") as heard:
        written = _greedy(model, source)
    encoders = with_matrices(model, choices(model.config)[1])
    with torch.no_grad():
        at_once = model(source, written[:, :-1])[:, -1]
        swapped = _gap(encoders(source, written[:, :-1])[:, -1], at_once)
    stepwise = _gap(heard["logits"][:, -1], at_once)
    tokens = written.shape[1] - 1
    return "\n".join(
        (
            _keys(model, heard),
            "",
            paragraph(
                "The encoder spoke once. From that one output each decoder layer made K and V with its own W_K and "
                f"W_V, once for the sentence; only its keys of the target were made anew for each of the {tokens} "
                "tokens."
            ),
            "",
            paragraph(
                f"One token at a time and all at once, the logits differ by at most {stepwise}. With the top encoder "
                f"layer's W_K and W_V in place of the decoder's own, they differ by {swapped}."
            ),
        )
    )


def _greedy(model: "Transformer", source: "Tensor") -> "Tensor":
    import torch

    written = torch.full((1, 1), model.config.bos_id)
    state = model.start(source)
    while written[0, -1] != model.config.eos_id and written.shape[1] <= 2 * source.shape[1] + 10:
        newest = model.step(written[:, -1:], state)[:, -1:].argmax(dim=-1)
        written = torch.cat((written, newest), dim=1)
    return written


def _keys(model: "Transformer", heard: "Recording") -> str:
    from glassformer.model.attention import split_heads

    rows = [("K of the source in", "made", "differs from memory × own W_K", "from layer 0's K", "K of the target")]
    first = heard["decoder.layers.0.cross_attention.k"]
    for i, layer in enumerate(model.decoder.layers):
        made = heard.all(f"decoder.layers.{i}.cross_attention.k")
        again = split_heads(layer.cross_attention.k_proj(heard["memory"]), model.config.n_heads)
        own = heard.all(f"decoder.layers.{i}.self_attention.k")
        rows.append(
            (
                f"decoder layer {i}",
                f"{len(made)} time",
                _gap(made[-1], again),
                _gap(made[-1], first),
                f"{len(own)} times",
            )
        )
    return columns(rows, "lrrrr")


def _gap(a: "Tensor", b: "Tensor") -> str:
    return short((a - b).abs().max().item())


def short(gap: float) -> str:
    return "0" if gap == 0 else f"{gap:.1e}" if gap < 0.001 else f"{gap:.2f}"


def exchange_text(found: "KeysValues") -> str:
    """What becomes of translations when K and V are made with other matrices."""
    whose = "given translations" if found.given else "its own greedy translations"
    rows = [("K and V made with W_K, W_V of", "log p a token", "likeliest", "same output")]
    rows += [
        (
            f"{row.choice.name}{' (= own)' if row.own and row is not found.own else ''}",
            f"{row.log_probability:.3f}",
            f"{100 * row.likeliest / found.tokens:.1f} %",
            f"{row.same} of {found.sentences}",
        )
        for row in found.rows
    ]
    notes = [f"({row.choice.name}: {row.choice.note})" for row in found.rows if row.choice.note]
    return "\n".join(
        (
            f"{found.sentences} sentences; log p of the {found.tokens} tokens of {whose}.",
            "",
            columns(rows, "lrrr"),
            *notes,
        )
    )


def matrices_text(found: "KeysValues") -> str:
    """Each layer's matrices beside others', and K and V done again."""
    rows = [
        ("cosine of W_K, W_V", "with the top", "with decoder", "K, V differ,", "‖K - K₀‖"),
        ("", "encoder layer's", "layer 0's", "recomputed", "÷ ‖K₀‖"),
    ]
    for i, one in enumerate(found.matrices):
        encoder, first = (", ".join(f"{x:.3f}" for x in pair) for pair in (one.cosine_encoder, one.cosine_first))
        rows.append((f"decoder layer {i}", encoder, first, short(max(one.differs)), f"{one.from_first:.2f}"))
    return "\n".join((columns(rows, "lrrrr"), "", *map(paragraph, _shared(found.matrices))))


def _shared(matrices: "list[Matrices]") -> list[str]:
    lines = []
    for i, one in enumerate(matrices):
        for letter, names in (("W_K", one.shared_k), ("W_V", one.shared_v)):
            if names:
                lines.append(f"Decoder layer {i}'s {letter} is one in memory with that of {', '.join(names)}.")
    return lines or ["None of these matrices shares its memory with another."]


def answer_text(found: "KeysValues") -> str:
    """All of it, the conclusion last."""
    from glassformer.inspection.interventions.cross_attention_matrices import in_words

    return "\n".join((exchange_text(found), "", matrices_text(found), "", paragraph(in_words(found))))


def answer_json(found: "KeysValues") -> dict[str, Any]:
    """The same for programs."""
    from glassformer.inspection.interventions.cross_attention_matrices import in_words

    return {
        "sentences": found.sentences,
        "tokens": found.tokens,
        "given": found.given,
        "rows": [_row(row) for row in found.rows],
        "matrices": [
            {
                "at": one.at,
                "shared_k": one.shared_k,
                "shared_v": one.shared_v,
                "cosine_encoder": one.cosine_encoder,
                "cosine_first": one.cosine_first,
                "differs": one.differs,
                "from_first": one.from_first,
            }
            for one in found.matrices
        ],
        "in_words": in_words(found),
    }


def _row(row: "MatrixSourceResult") -> dict[str, Any]:
    return {
        "made_with": row.choice.name,
        "taken": row.choice.taken,
        "own": row.own,
        "log_probability": row.log_probability,
        "likeliest": row.likeliest,
        "same": row.same,
    }
