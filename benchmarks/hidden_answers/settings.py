"""What single settings of the survey model are worth on hidden answers.

    python benchmarks/hidden_answers/settings.py [bfi ...]

One fit with the settings that predict best and one with a single response style, the answers hidden
as in run.py, the strength of the prior not tuned. Each fit is asked twice: factors taken as known
(mean-field), and with their uncertainty (linear response).
"""

from __future__ import annotations

import sys

from data import levels, load, mask
from ours import hidden_cells
from score import nll

import ordinalrbm as orbm

RECOMMENDED = {
    "units_per_factor": 250,
    "unanswered": "latent",
    "n_epochs": 10,
    "learning_rate": 0.0005,
    "weight_decay": 30.0,
    "random_state": 0,
}


def main() -> None:
    print(f"{'data':5} {'response styles':>15} {'mean_field':>11} {'linear_response':>16}   NLL")
    for name in sys.argv[1:] or ["bfi"]:
        train, rows, columns, truth = mask(load(name), 0)
        known = levels(train)
        scales = {column: list(found) for column, found in zip(train.columns, known, strict=True)}
        for styles in (1, 9):
            model = orbm.CumulativeRBM(
                train.shape[1], response_styles=styles, scales=scales, **RECOMMENDED
            ).fit(train)
            found = []
            for inference in ("mean_field", "linear_response"):
                model.set_params(inference=inference)
                chances = hidden_cells(model, train, rows, columns)
                found.append(nll(chances, truth, columns, known))
            print(f"{name:5} {styles:15} {found[0]:11.4f} {found[1]:16.4f}", flush=True)


if __name__ == "__main__":
    main()
