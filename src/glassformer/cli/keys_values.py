"""Whose W_K and W_V does the decoder use? Asked of a running model, and checked with its own numbers."""

from typing import TYPE_CHECKING

from glassformer.cli.text import columns, paragraph

if TYPE_CHECKING:
    from torch import Tensor

    from glassformer.inspection import Recording
    from glassformer.model import Transformer


def whose_keys_and_values(model: "Transformer", source: "Tensor") -> str:
    """The answer as text: the model translates one source (ids, 1 S) while we listen."""
    import torch

    from glassformer.inspection import record

    with record(model, "memory", "decoder.*_attention.k", "logits") as heard:
        written = _greedy(model, source)
    with torch.no_grad():
        at_once = model(source, written[:, :-1])[:, -1]
    stepwise = _gap(heard["logits"][:, -1], at_once)
    swapped = _gap(_with_the_encoders(model, source, written[:, :-1]), at_once)
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


def _with_the_encoders(model: "Transformer", source: "Tensor", target: "Tensor") -> "Tensor":
    """The last logits, if every decoder layer took its keys and values from the top encoder layer's matrices."""
    import torch

    visible = model.visible(source)
    with torch.no_grad():
        encoders = model.encoder.layers[-1].self_attention.keys_values(model.encode(source, visible))
        hidden = model.decoder(target, [encoders] * len(model.decoder.layers), visible)
        return model.project(hidden)[:, -1]


def _gap(a: "Tensor", b: "Tensor") -> str:
    gap = (a - b).abs().max().item()
    return "0" if gap == 0 else f"{gap:.1e}" if gap < 0.001 else f"{gap:.2f}"
