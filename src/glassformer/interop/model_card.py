"""README.md of a directory that came in or goes out: what it is, where it is from, what was proved, how it is used."""

from glassformer.model import Transformer

USES = {
    "glassformer": """```python
from glassformer import Translator

print(Translator.load("this directory")("A sentence."))
```""",
    "ids": """It takes ids, not text:

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
answer = translator.translate_batch([tokens])[0]  # tokens as in source_vocabulary.json, the end of sentence with them
```""",
    "onnx": """`encoder.onnx` makes every decoder layer's keys and values of a source, once; `decoder.onnx` takes these,
the newest target tokens and what it remembers of those before, and gives logits and what it remembers now. Inputs
and outputs have the names of glassformer's model; `metadata_props` holds its settings and the ids of start, end and
padding.

```python
import onnxruntime

encoder = onnxruntime.InferenceSession("encoder.onnx")
decoder = onnxruntime.InferenceSession("decoder.onnx")
```""",
}


def card(model: Transformer, title: str, origin: str, use: str, facts: dict[str, str]) -> str:
    """A model card; `facts` are rows of its table."""
    config = model.config
    layers = f"{config.encoder_layers} + {config.decoder_layers} layers of width {config.d_model}"
    rows = {
        "from": origin,
        "kind": f"{layers}, {config.n_heads} heads, feed-forward {config.d_ff}, positions {config.positions}",
        "parameters": f"{model.n_parameters:,}",
        "vocabulary": f"{config.source_vocab_size:,} source tokens, {config.vocab_size:,} target tokens",
        **facts,
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    return f"# {title}\n\n| | |\n|---|---|\n{table}\n\n{USES[use]}\n"
