"""Entry point of `python -m glassformer`, also under torchrun: `torchrun --nproc-per-node 2 -m glassformer train`."""

from glassformer.cli import main

main()
