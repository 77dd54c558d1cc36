"""Helper process of data-parallel training: one more rank of a run on this machine, without output.

Started by `distributed.local_group`.
"""

import sys
from pathlib import Path

from glassformer.errors import GlassformerError
from glassformer.training.distributed import join_local_group
from glassformer.training.progress_listener import ProgressListener
from glassformer.training.run import train_as_rank
from glassformer.training.run_resources import keep_memory
from glassformer.training.run_setup import open_run
from glassformer.training.stop_signals import Interrupted


def main(run_directory: str, rendezvous: str, rank: str, size: str, parent: str) -> None:
    keep_memory()
    group = join_local_group(rendezvous, int(rank), int(size), int(parent))
    try:
        train_as_rank(open_run(Path(run_directory)), group, ProgressListener())
    except Interrupted:
        return  # rank 0 reports it
    except (GlassformerError, RuntimeError):
        sys.exit(1)  # rank 0 reports the same error; or it is gone, and gloo raises a RuntimeError


if __name__ == "__main__":
    main(*sys.argv[1:])
