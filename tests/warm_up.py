"""Compile the kernels once, in one process, before the tests are shared among several.

Else each process of pytest-xdist would compile them for itself, at the same time as the others.
"""

import tempfile
from pathlib import Path

import numpy as np

import ordinalrbm as orbm

FEW = {"n_epochs": 2, "random_state": 0}
SURVEYS = [
    {},
    {"inference": "mcmc", "n_draws": 3, "free_phase": "persistent", "unanswered": "latent"},
    {"response_styles": 3, "units_per_factor": 4, "inference": "linear_response"},
]


def survey(table: np.ndarray, **settings: object) -> None:
    """Everything that a model of a survey can be asked."""
    model = orbm.CumulativeRBM(2, **FEW, **settings).fit(table, np.linspace(0.5, 2, len(table)))
    model.predict_proba(table)
    model.impute(table, n_draws=2, random_state=0)
    model.score(table)
    model.sample(5, random_state=0)
    model.sample_factors(table[:5], n_draws=4, random_state=0)
    for method in ("exact", "ais"):
        model.log_likelihood(table[:5], method, random_state=0)


def raters() -> list:
    """One model of each kind."""
    return [
        orbm.MatrixCumulativeRBM(2, 2, **FEW),
        orbm.MatrixCumulativeRBM(2, 0, free_phase="persistent", **FEW),
        orbm.OrdinalMF(2, **FEW),
        orbm.OrdinalMF(2, posterior="point", **FEW),
        # Widths are drawn for the first time in the second sweep.
        orbm.OrdinalMF(2, posterior="sampled", n_draws=2, n_epochs=4, random_state=0),
        orbm.GaussianMF(2, **FEW),
        orbm.MultinomialRBM(2, **FEW),
    ]


def rater(model: object, ratings: tuple[np.ndarray, ...], folder: Path) -> None:
    """Everything that a model of ratings can be asked, once more after it was stored."""
    model.fit(ratings, checkpoint=Path(tempfile.mkdtemp(dir=folder)), every=1)
    model.save(folder / "model.orbm")
    for each in (model, orbm.load(folder / "model.orbm")):
        each.predict_proba([0, -1, 1], [1, 2, -1])
        each.recommend("all", n=2)
        for what in ("explain", "fold_in"):  # not every model can
            if hasattr(each, what):
                given = ([77, 77], [0, 1], [1, 2])
                each.fold_in(given) if what == "fold_in" else each.explain(0, 1)


def main() -> None:
    rng = np.random.default_rng(0)
    table = rng.integers(1, 5, (40, 5)).astype(float)
    table[rng.random(table.shape) < 0.1] = np.nan
    for settings in SURVEYS:
        survey(table, **settings)
    row, column = np.nonzero(~np.isnan(table))
    with tempfile.TemporaryDirectory() as folder:
        for model in raters():
            rater(model, (row, column, table[row, column]), Path(folder))


if __name__ == "__main__":
    main()
