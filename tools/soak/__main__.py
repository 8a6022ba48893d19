"""The long run: tasks under load while workers are killed and frozen, the database restarts and the disk is full.

Then all is left in peace, and the books have to balance to the last task: none is lost, none counted twice. It exits
with 1 if something is off, and names the seed by which the same things happen again.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys

from tools.soak.saying import counted


def main() -> int:
    """Run on both databases side by side, or on one of them."""
    parser = argparse.ArgumentParser(prog="python -m tools.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long things happen; then what is left is done")
    parser.add_argument("--on", choices=["both", "sqlite", "postgres"], default="both", help="where")
    parser.add_argument("--seed", type=int, default=None, help="the same things happen again; how they meet is chance")
    parser.add_argument("--rate", type=float, default=120.0, help="tasks per second and database, about")
    parser.add_argument("--workers", type=int, default=3, help="worker processes per database")
    parser.add_argument("--keep", action="store_true", help="leave the folder of logs and effects")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as Ctrl-C: what was started is ended
    seed = random.randrange(10**6) if options.seed is None else options.seed
    if options.on == "both":
        print(f"seed {seed}: {counted(options.minutes, 'minute')} on both databases side by side", flush=True)
        shared = ["--minutes", str(options.minutes), "--seed", str(seed), "--rate", str(options.rate)]
        shared += ["--workers", str(options.workers)]
        shared += ["--keep"] if options.keep else []
        runs = {
            place: subprocess.Popen([sys.executable, "-m", "tools.soak", "--on", place, *shared])
            for place in ("sqlite", "postgres")
        }
        try:
            codes = {place: each.wait() for place, each in runs.items()}
        finally:
            for each in runs.values():
                each.terminate()
        for place, code in codes.items():
            print(f"{place}: {'the books balance' if code == 0 else 'something is off'}")
        again = f"python -m tools.soak --minutes {options.minutes:g} --seed {seed}"
        print(f"to have the same things happen again: {again}")
        return int(any(codes.values()))
    from tools.soak.run import Settings, run  # noqa: PLC0415  # not for --help

    print(f"[{options.on}] seed {seed}", flush=True)
    off = run(Settings(options.on, options.minutes * 60, seed, options.rate, options.keep, options.workers))
    wrong = "1 thing is off" if off == 1 else f"{off} things are off"
    print(f"[{options.on}] {wrong if off else 'the books balance to the last task'}", flush=True)
    return int(off > 0)


if __name__ == "__main__":
    sys.exit(main())
