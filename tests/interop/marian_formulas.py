"""Marian's forward pass in NumPy, from marian-dev's transformer.h and cells.h; independent of our code."""

import numpy as np
import torch


def formulas(options, tensors, source, target):
    """The logits after the zero vector and each target token, as in marian-dev's transformer.h and cells.h."""
    width, heads = options["dim-emb"], options["transformer-heads"]
    t = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    first = "n" in options["transformer-preprocess"]

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
        return x * t[name.replace("?", "scale")] + t[name.replace("?", "bias")]

    def around(x, f, name, name_first=None):
        """The residual connection of a sub-layer."""
        if first:
            return x + f(norm(x, f"{name_first or name}_ln_?_pre"))
        return norm(x + f(x), f"{name}_ln_?")

    def attention(name, x, memory, future):
        q, k, v = (
            side @ t[f"{name}_W{p}"] + t[f"{name}_b{p}"] for p, side in zip("qkv", (x, memory, memory), strict=True)
        )
        q, k, v = (rows.reshape(len(rows), heads, width // heads).transpose(1, 0, 2) for rows in (q, k, v))
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(width // heads)
        if not future:
            scores = scores - 1e9 * np.triu(np.ones(scores.shape[1:]), 1)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        joined = (weights @ v).transpose(1, 0, 2).reshape(len(x), width)
        return joined @ t[f"{name}_Wo"] + t[f"{name}_bo"]

    def recurrence(name, x):
        candidates = x @ t[f"{name}_W"]
        gates = 1 / (1 + np.exp(-(x @ t[f"{name}_Wf"] + t[f"{name}_bf"])))
        cell, outputs = np.zeros(width), []
        for gate, candidate in zip(gates, candidates, strict=True):
            cell = gate * cell + (1 - gate) * candidate
            outputs.append(np.maximum(cell, 0))
        return np.stack(outputs)

    def feed_forward(name, x):
        hidden = x @ t[f"{name}_W1"] + t[f"{name}_b1"]
        match options["transformer-ffn-activation"], options["version"] < "v1.12.1":
            case "relu", _:
                hidden = np.maximum(hidden, 0)
            case "swish", _:
                hidden = hidden / (1 + np.exp(-hidden))
            case "gelu", True:
                hidden = hidden / (1 + np.exp(-1.702 * hidden))
            case "gelu", False:
                hidden = 0.5 * hidden * (1 + torch.erf(torch.from_numpy(hidden) / 2**0.5).numpy())
        return hidden @ t[f"{name}_W2"] + t[f"{name}_b2"]

    def embedded(stack, vectors):
        if "Wpos" in t:
            x = vectors + t["Wpos"][: len(vectors)]
        else:
            increment = np.log(10000) / (width / 2 - 1)
            angles = np.arange(len(vectors))[:, None] * np.exp(np.arange(width // 2) * -increment)
            x = np.sqrt(width) * vectors + np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        return norm(x, f"{stack}_emb_ln_?_pre") if "n" in options["transformer-postprocess-emb"] else x

    def top(stack, x):
        return norm(x, f"{stack}_top_ln_?") if options["transformer-postprocess-top"] else x

    of_source, of_target = (t.get("Wemb", t.get(f"{stack}_Wemb")) for stack in ("encoder", "decoder"))
    memory = embedded("encoder", of_source[source])
    for i in range(1, options["enc-depth"] + 1):
        layer = f"encoder_l{i}"
        memory = around(memory, lambda x: attention(f"{layer}_self", x, x, True), f"{layer}_self_Wo")  # noqa: B023
        memory = around(memory, lambda x: feed_forward(f"{layer}_ffn", x), f"{layer}_ffn_ffn")  # noqa: B023
    memory = top("encoder", memory)
    x = embedded("decoder", np.concatenate([np.zeros((1, width)), of_target[target]]))
    for i in range(1, options["dec-depth"] + 1):
        layer = f"decoder_l{i}"
        if options["transformer-decoder-autoreg"] == "rnn":
            x = around(x, lambda y: recurrence(f"{layer}_rnn", y), f"{layer}_rnn_ffn", f"{layer}_rnn")  # noqa: B023
        else:
            x = around(x, lambda y: attention(f"{layer}_self", y, y, False), f"{layer}_self_Wo")  # noqa: B023
        x = around(x, lambda y: attention(f"{layer}_context", y, memory, True), f"{layer}_context_Wo")  # noqa: B023
        x = around(x, lambda y: feed_forward(f"{layer}_ffn", y), f"{layer}_ffn_ffn")  # noqa: B023
    x = top("decoder", x)
    if options["tied-embeddings-all"] or options["tied-embeddings"]:
        logits = x @ of_target.T
    elif "decoder_ff_logit_out_W" in t:
        logits = x @ t["decoder_ff_logit_out_W"]
    else:
        logits = x @ t["decoder_ff_logit_out_Wt"].T
    return logits + t.get("decoder_ff_logit_out_b", 0)
