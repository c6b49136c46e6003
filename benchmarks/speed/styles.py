"""What response styles cost: the recommended fit of the embedded survey with and without them.

    python benchmarks/speed/styles.py [--repeats 5]

Both in one process in turns, each once before the clock starts; the fastest of the repeats.
"""

from __future__ import annotations

import argparse
import time

import ordinalrbm as orbm

STYLES = (1, 9)


def seconds(styles: int) -> float:
    answers = orbm.datasets.load_food_world_cup()
    model = orbm.CumulativeRBM(3, n_epochs=4, response_styles=styles, random_state=0)
    begun = time.perf_counter()
    model.fit(answers)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    for styles in STYLES:
        seconds(styles)
    rounds = [[seconds(styles) for styles in STYLES] for _ in range(repeats)]
    without, with_styles = (min(times) for times in zip(*rounds, strict=True))
    print(f"without styles {without:.2f} s, with {STYLES[1]} {with_styles:.2f} s, ", end="")
    print(f"{with_styles / without:.1f} times as long")


if __name__ == "__main__":
    main()
