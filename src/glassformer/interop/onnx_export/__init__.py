"""Export to ONNX (the extra `onnx`): a model as two files."""

from glassformer.interop.onnx_export.onnx_writer import DECODER, ENCODER, write_onnx

__all__ = ["DECODER", "ENCODER", "write_onnx"]
