"""Declarations of the C engine that Python repeats: structs and constants of native/*.h, checked when it is loaded."""

from ctypes import CDLL, POINTER, Structure, c_double, c_float, c_int32, c_ssize_t, c_uint16, c_void_p, sizeof

from glassformer.engine.engine_options import PRECISIONS

ACTIVATIONS = ("relu", "gelu", "gelu-tanh", "silu")
"""In the order of `enum activation` of native/rows.h."""
SATURATING_ROWS = 56
"""Number of rows (hypotheses) that keep a core busy (ROWS_PER_PASS in native/transformer.c): more only take memory."""
NO_MEMORY = 0
FAILURES = NO_MEMORY_IN_SEARCH, NOT_FINITE, WRONG_ROWS, TOO_LONG, WRONG_LIST = -1, -2, -3, -4, -5
"""Results of calls that fail or are refused, as in native/transformer.c."""


class CNorm(Structure):
    """C struct `norm` of native/rows.h."""

    _fields_ = (("weight", c_void_p), ("bias", c_void_p))


class CProduct(Structure):
    """C struct `product` of native/products.h: a packed matrix."""

    _fields_ = (
        *((name, c_int32) for name in ("precision", "inputs", "outputs")),
        *((name, c_void_p) for name in ("weight", "bias", "scale", "sums")),
    )


class CLayer(Structure):
    """C struct `layer` of native/sentence.h."""

    _fields_ = (
        *((name, CNorm) for name in ("self_norm", "cross_norm", "feed_forward_norm")),
        *((name, CProduct) for name in ("qkv", "out", "cross_q", "cross_out", "up", "down")),
    )


class CStack(Structure):
    """C struct `stack` of native/sentence.h: the encoder or the decoder."""

    _fields_ = (
        *((name, c_void_p) for name in ("table", "positions", "bias")),
        ("bias_stride", c_ssize_t),
        *((name, CNorm) for name in ("embedding_norm", "final_norm")),
        ("layers", POINTER(CLayer)),
        ("n_layers", c_int32),
    )


class CModel(Structure):
    """C struct `model` of native/sentence.h."""

    _fields_ = (
        *(
            (name, c_int32)
            for name in (
                *("d_model", "heads", "d_head", "d_ff", "vocab_size", "bos", "norm_first", "activation", "gated"),
                *("recurrent", "length"),
            )
        ),
        *((name, c_float) for name in ("eps", "scale", "embedding_scale", "output_scale")),
        *((name, c_void_p) for name in ("cos", "sin")),
        *((name, CStack) for name in ("encoder", "decoder")),
        *((name, CProduct) for name in ("cross_kv", "output")),
    )


class CBeam(Structure):
    """C struct `beam` of native/beam.h: settings of a beam search."""

    _fields_ = (
        *((name, c_int32) for name in ("eos", "width", "n_best", "keep_greedy", "looked_at")),
        ("never", c_void_p),
        ("length_penalty", c_double),
    )


def check_layout(library: CDLL) -> None:
    """Check that the library was compiled with the same structs and constants: otherwise it would read wrong memory."""
    ours = [
        *(sizeof(struct) for struct in (CNorm, CProduct, CLayer, CStack, CModel, CBeam, c_uint16)),
        SATURATING_ROWS,
        *FAILURES,
        *range(len(ACTIVATIONS)),
        *range(len(PRECISIONS)),
    ]
    theirs = [library.layout(number) for number in range(len(ours) + 1)]
    if theirs != [*ours, 0]:
        raise RuntimeError(f"engine/native_structs.py differs from the C headers: {ours} in Python, {theirs} in C.")
