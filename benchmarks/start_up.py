"""How long `entropy-lab --help` takes beside `python -c "import typer"`, the least any Typer program can take.

python benchmarks/start_up.py
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 15
COMMANDS = {
    'python -c "import typer"': [sys.executable, "-c", "import typer"],
    "entropy-lab --help": [str(Path(sys.executable).with_name("entropy-lab")), "--help"],
}


def main() -> None:
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):  # interleaved, so that noise falls on both
        for name, command in COMMANDS.items():
            began = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds[name].append(time.perf_counter() - began)
    least = statistics.median(seconds['python -c "import typer"'])
    print(f"{'command':28}{'median s':>10}{'ratio':>8}")
    for name, times in seconds.items():
        print(f"{name:28}{statistics.median(times):>10.3f}{statistics.median(times) / least:>8.2f}")


if __name__ == "__main__":
    main()
