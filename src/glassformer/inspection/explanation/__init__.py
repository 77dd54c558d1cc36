"""Step-by-step computation of one attention head, and attribution between tokens."""
