"""Checks of one's own model: invariants of search, and parity with other programs."""
