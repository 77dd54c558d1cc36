"""Preloaded modules of the fork server of tests/processes.py: everything that commands and examples import."""

import sacrebleu  # noqa: F401
import torch

import glassformer
import glassformer.benchmark
import glassformer.cli
import glassformer.engine.native_model
import glassformer.inspection.coreference
import glassformer.inspection.figures
import glassformer.interop
import glassformer.training
import glassformer.verification
import tests.training.runs  # noqa: F401

for name in glassformer.__all__:
    getattr(glassformer, name)
torch.set_num_threads(1)
