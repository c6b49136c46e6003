"""The paper's Netflix table, for those who have the data.

    python benchmarks/paper/netflix.py FOLDER [--factors 50 100] [--seeds 1] [--users 50000]

FOLDER (or a file in it) holds combined_data_*.txt or mv_*.txt as they were published. Chronological
protocol. With ``--users`` a random part of the users is taken, for machines without the memory or
the time for all.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from table import parser, print_table

import ordinalrbm as orbm

NO_DATA = (
    "Netflix's ratings may not be passed on, so they are not here; give the folder with "
    "combined_data_*.txt or mv_*.txt: python benchmarks/paper/netflix.py FOLDER"
)


def some(ratings: pd.DataFrame, n_users: int) -> pd.DataFrame:
    """The ratings of so many users, chosen at random."""
    users = ratings["user"].unique()
    if n_users >= len(users):
        return ratings
    chosen = np.random.default_rng(0).choice(users, n_users, replace=False)
    return ratings[ratings["user"].isin(chosen)]


def main() -> None:
    command = parser(__doc__, factors=[50, 100])
    command.set_defaults(seeds=1)
    command.add_argument("folder", type=Path, nargs="?")
    command.add_argument("--users", type=int, help="take a random part of so many users")
    options = command.parse_args()
    if options.folder is None:
        stop(NO_DATA)
    try:
        ratings = orbm.datasets.read_netflix(options.folder)
    except orbm.DataError as error:
        stop(str(error))
    if options.users is not None:
        ratings = some(ratings, options.users)
    print_table(orbm.evaluate.split(ratings, protocol="chronological"), options, paper={})


def stop(why: str) -> None:
    """Say why there is nothing to do."""
    print(why, file=sys.stderr)
    raise SystemExit(2)


if __name__ == "__main__":
    main()
