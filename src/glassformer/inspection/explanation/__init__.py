"""Step-by-step explanation of one attention, and attribution between tokens."""
