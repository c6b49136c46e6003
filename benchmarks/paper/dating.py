"""The paper's Dating table: the five-point transform, and the original ten points.

    python benchmarks/paper/dating.py [--factors 50] [--seeds 5] [--data FILE]

Random protocol, as there are no times: of each user with 30 ratings or more, 10 are the test and
5 validation. The data here is a part of the paper's (2,000 users), so that its figures, which are
for the whole, would not compare; none are printed.
"""

from __future__ import annotations

import pandas as pd
from table import parser, print_table, ratings

import ordinalrbm as orbm


def five_points(ten: pd.DataFrame) -> pd.DataFrame:
    """Two neighbouring ratings become one: 1 and 2, 3 and 4, …"""
    return ten.assign(rating=(ten["rating"] + 1) // 2)


def main() -> None:
    command = parser(__doc__, factors=[50])
    command.add_argument(
        "--data", default="dating-top2000", help="name of a data set, or Libimseti's ratings.dat"
    )
    options = command.parse_args()
    original = options.data.endswith(".dat")
    ten = orbm.datasets.read_libimseti(options.data) if original else ratings(options.data)
    for title, frame in {"five points": five_points(ten), "ten points": ten}.items():
        print(title)
        print_table(orbm.evaluate.split(frame, protocol="random"), options, paper={})


if __name__ == "__main__":
    main()
