"""A model as two ONNX files (the extra `onnx`)."""

from glassformer.interop.onnx_export.onnx_writer import DECODER, ENCODER, unsupported, write_onnx

__all__ = ["DECODER", "ENCODER", "unsupported", "write_onnx"]
