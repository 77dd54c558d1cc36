"""Coverage-guided fuzzing of one target with atheris: `python -m tests.fuzz.fuzz TARGET CORPUS_DIRECTORY [options]`.

The options are libFuzzer's, such as -max_total_time=60. New inputs are added to the directory; an input that fails is
written beside it.
"""

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["glassformer"]):
    from tests.fuzz.kept_inputs import unpack
    from tests.fuzz.targets import TARGETS, check

MAX_INPUT_BYTES = 8192


def main() -> None:
    name, directory = sys.argv[1], Path(sys.argv[2])
    target = TARGETS[name]
    directory.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (directory / f"seed-{number}").write_bytes(seed)
    unpack(name, directory)
    dictionary = directory.with_suffix(".dict")
    quoted = ["".join(f"\\x{byte:02x}" for byte in word) for word in target.words]
    dictionary.write_text("".join(f'"{word}"\n' for word in quoted))
    longest = max([MAX_INPUT_BYTES, *(len(seed) * 2 for seed in target.seeds())])
    options = [f"-dict={dictionary}", f"-max_len={longest}", "-timeout=10", "-rss_limit_mb=4096"]
    options += [f"-artifact_prefix={directory}-", *sys.argv[3:]]
    atheris.Setup([sys.argv[0], *options, str(directory)], lambda data: check(target, data) and None)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
