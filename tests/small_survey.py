"""The survey that comes with the library, with fewer rows where all of them would take long."""

import numpy as np
from long_form import LONG

import ordinalrbm as orbm

N_ROWS = 150


def shorten_survey(monkeypatch):
    """Let `load_food_world_cup` return few rows, except in the long form.

    The first three, which pages show, and those with most answers: few levels are missing there.
    """
    load = orbm.datasets.load_food_world_cup

    def few_rows(**options):
        answers = load()
        n_answers = answers.notna().sum(axis=1).to_numpy().copy()
        n_answers[:3] = answers.shape[1]
        rows = np.sort(np.argsort(-n_answers, kind="stable")[:N_ROWS])
        if options:
            return tuple(each.iloc[rows] for each in load(**options))
        return answers.iloc[rows]

    if not LONG:
        monkeypatch.setattr(orbm.datasets, "load_food_world_cup", few_rows)
