"""Text and JSON of what `glassformer explain` prints: one attention head step by step, and pronoun resolution."""
