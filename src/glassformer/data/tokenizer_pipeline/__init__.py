"""Text to pieces as a `tokenizer.json` describes it: added tokens, normal form, words, a model; and back to text.

Each part of such a file has its place here: `file` reads it, `added` finds tokens that stand in a text as they are,
`normal` and `charsmap` give a text its normal form, `splitting` makes words of it, `unigram` and `bpe` make pieces of
words, `joining` makes text of pieces. A part that is not known is refused by its name (`UnsupportedComponentError`).
"""

from glassformer.data.tokenizer_pipeline.component import UnsupportedComponentError
from glassformer.data.tokenizer_pipeline.pipeline import Pipeline

__all__ = ["Pipeline", "UnsupportedComponentError"]
