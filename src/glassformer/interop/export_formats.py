"""The programs that models are exported to, by name, and the quantizations of CTranslate2."""

from typing import Literal

ExportFormat = Literal["huggingface", "ctranslate2", "onnx"]
"""Export format: the program that the exported files are for."""
QUANTIZATIONS = ("int8", "int8_float32", "int16", "float16", "bfloat16", "float32")
