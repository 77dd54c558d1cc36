"""CPU seconds to import glassformer and all its public names, with torch already imported; best of five.

python benchmarks/import_time.py
"""

import subprocess
import sys

ROUNDS = 5
CODE = """
import time
import torch
start = time.process_time()
import glassformer
for name in glassformer.__all__:
    getattr(glassformer, name)
print(time.process_time() - start)
"""


def main() -> None:
    seconds = [
        float(subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True, text=True).stdout)
        for _ in range(ROUNDS)
    ]
    print(f"import glassformer with all public names, without torch: {min(seconds):.2f} CPU seconds (limit: 0.3 s)")


if __name__ == "__main__":
    main()
