"""What each joint move of scales of the sampled posterior is worth: chains without one of them.

    python benchmarks/scale_moves.py [--sets ml-100k ...] [--size 0] [--seeds 2] [--epochs 600]
        [--device cuda]

The moves are those of ``gibbs_sampler._moved_scales``. Printed are effective sample sizes after the
sweeps that are dropped (R-hat in brackets), and NLL of test ratings, as in ``chains.py``.
"""

from __future__ import annotations

import argparse

from chains import SETS, fitted, losses, parts_of

from ordinalrbm.matrix import gibbs_sampler
from ordinalrbm.matrix.gibbs_sampler import SampledState, _Jump

MOVES = ("none", "_other_scale", "_other_widths", "_other_ridge", "_other_gaps")


def nowhere(data: object, state: SampledState, *others: object) -> _Jump:
    return _Jump(state, float("-inf"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=["ml-100k", "insteval", "dating-top2000"], choices=SETS)
    parser.add_argument("--without", nargs="+", default=MOVES, choices=MOVES)
    parser.add_argument("--size", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=600)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    given = parser.parse_args()
    for name in given.sets:
        for seed in range(given.seeds):
            train, test = parts_of(name, given.size, "ratings", seed)
            for move in given.without:
                before = getattr(gibbs_sampler, move, None)
                if before is not None:
                    setattr(gibbs_sampler, move, nowhere)
                model, seconds = fitted(
                    train, seed, posterior="sampled", n_epochs=given.epochs, device=given.device
                )
                if before is not None:
                    setattr(gibbs_sampler, move, before)
                chain, (nll, _) = model.chain_, losses(model, test)
                told = "  ".join(
                    f"{part} {line['effective_size']:.0f} ({line['r_hat']:.2f})"
                    for part, line in chain.iterrows()
                    if part != "drift"
                )
                print(
                    f"{name:15s} {seed} without {move:15s} {nll.mean():.4f} {seconds:6.1f} s  {told}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
