"""A helper process: one more rank of a run on this machine. Started by `world.local_world`, silent."""

import sys
from pathlib import Path

from glassformer.training.distributed import help_as_rank
from glassformer.training.progress_listener import ProgressListener
from glassformer.training.run_resources import keep_memory
from glassformer.training.run_setup import open_run
from glassformer.training.stop_signals import Interrupted
from glassformer.training.train import work


def main(run: str, meeting: str, rank: str, size: str) -> None:
    keep_memory()
    world = help_as_rank(meeting, int(rank), int(size))
    try:
        work(open_run(Path(run)), world, ProgressListener())
    except Interrupted:
        return  # the chief says so
    except RuntimeError:
        sys.exit(1)  # how gloo says that the chief is gone


if __name__ == "__main__":
    main(*sys.argv[1:])
