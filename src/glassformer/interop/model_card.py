"""Model card (README.md) of a converted or exported directory: origin, architecture, verification, usage."""

from typing import TYPE_CHECKING

from glassformer.model import ModelWeights

if TYPE_CHECKING:
    from glassformer.model import Transformer

USAGE = {
    "glassformer": """```python
from glassformer import load

print(load("this directory")("A sentence."))
```""",
    "ids": """It takes token ids, not text:

```python
from glassformer import load

logits = load("this directory").model(source_ids, target_ids)
```""",
    "huggingface": """```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("this directory")
model = AutoModelForSeq2SeqLM.from_pretrained("this directory")
ids = model.generate(**tokenizer("A sentence.", return_tensors="pt"))
print(tokenizer.decode(ids[0], skip_special_tokens=True))
```""",
    "ctranslate2": """```python
import ctranslate2

translator = ctranslate2.Translator("this directory")
result = translator.translate_batch([tokens])[0]  # tokens as in source_vocabulary.json, including the end of sentence
```""",
    "onnx": """`encoder.onnx` computes every decoder layer's cross-attention keys and values, once per source;
`decoder.onnx` takes these, the newest target tokens and the cache of earlier ones, and returns the logits and the new
cache. Inputs and outputs have the names of glassformer's model; `metadata_props` holds its settings and the ids of
start, end and padding.

```python
import onnxruntime

encoder = onnxruntime.InferenceSession("encoder.onnx")
decoder = onnxruntime.InferenceSession("decoder.onnx")
```""",
}


def card(model: "Transformer | ModelWeights", title: str, origin: str, use: str, facts: dict[str, str]) -> str:
    """A model card; `facts` are more rows of its table."""
    config = model.config
    layers = f"{config.encoder_layers} + {config.decoder_layers} layers of width {config.d_model}"
    rows = {
        "origin": origin,
        "architecture": f"{layers}, {config.n_heads} heads, feed-forward {config.d_ff}, {config.positions} positions",
        "parameters": f"{model.n_parameters:,}",
        "vocabulary": f"{config.source_vocab_size:,} source tokens, {config.vocab_size:,} target tokens",
        **facts,
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    return f"# {title}\n\n| | |\n|---|---|\n{table}\n\n{USAGE[use]}\n"
