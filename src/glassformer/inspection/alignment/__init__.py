"""Word alignment from cross-attention: head selection, alignment error rate, an IBM model 1 aligner."""
