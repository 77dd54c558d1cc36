"""Word alignment from cross-attention: head selection, alignment error rate, IBM model 1 aligner."""
