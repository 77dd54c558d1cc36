"""Explanations of one attention, step by step, and attribution between tokens."""
