"""The paper's MovieLens table: ours and the baselines beside the paper's figures.

    python benchmarks/paper/movielens.py [--factors 50 100 200] [--seeds 5] [--data FILE]

MovieLens 1M, chronological protocol: users with fewer than 30 ratings removed, per user the last
10 ratings are the test, the 5 before them validation. RMSE by the mean, MAE by the mode (the
paper's choice) and by the median.
"""

from __future__ import annotations

from table import parser, print_table, split

# RMSE and MAE as printed in Tran, Phung and Venkatesh (2012), for MovieLens 1M.
PAPER = {
    ("Gaussian MF", 50): (0.914, 0.720),
    ("ordinal MF", 50): (0.904, 0.682),
    ("multinomial RBM", 50): (0.928, 0.711),
    ("matrix CRBM", 50): (0.904, 0.666),
    ("matrix CRBM", 100): (0.904, 0.662),
}


def main() -> None:
    command = parser(__doc__, factors=[50, 100, 200])
    command.add_argument("--data", default="ml-1m", help="name of a data set, or a file")
    options = command.parse_args()
    parts = split(options.data, "chronological")
    print_table(parts, options, {} if options.data == "ml-100k" else PAPER)


if __name__ == "__main__":
    main()
