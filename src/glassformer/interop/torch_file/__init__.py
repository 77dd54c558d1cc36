"""Reader for torch.save checkpoints: the pickle is interpreted in a sandboxed subprocess, and no code in it is run.

The subprocess imports this package, so importing it loads nothing.
"""
