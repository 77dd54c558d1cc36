"""`python -m glassformer`, which is also what torchrun starts: `torchrun --nproc-per-node 2 -m glassformer train`."""

from glassformer.cli import main

main()
