"""The pipeline of a `tokenizer.json`: added tokens, normalizer, pre-tokenizer, model and decoder.

One module per component: `tokenizer_json_file` parses the file, `added_tokens` finds added tokens in a text,
`normalizers` (with `charsmap`) and `pre_tokenizers` prepare it, `unigram` and `bpe` split words into pieces, `decoders`
join pieces to text. A component that is not supported is refused by name (`UnsupportedComponentError`).
"""

from glassformer.data.tokenizer_pipeline.component import UnsupportedComponentError
from glassformer.data.tokenizer_pipeline.pipeline import Pipeline

__all__ = ["Pipeline", "UnsupportedComponentError"]
