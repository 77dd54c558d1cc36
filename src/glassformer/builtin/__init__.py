"""What comes with the package: the `street` corpus, made by a grammar, and the model trained on it."""
