"""Whatever table is given to CumulativeRBM: a refusal in one sentence, or a sound result."""

import numbers
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from answer_tables import Case, given_answers, survey_cases, tables
from fuzzing import TALLIES, case, cases, refused, told
from hypothesis import given
from hypothesis import strategies as st

import ordinalrbm as orbm
from ordinalrbm.data.tables import as_table

SETTINGS = st.fixed_dictionaries(
    {
        "n_factors": st.integers(1, 3),
        "inference": st.sampled_from(["mean_field", "linear_response", "mcmc"]),
        "unanswered": st.sampled_from(["absent", "latent"]),
        "response_styles": st.sampled_from([1, 3]),
        "units_per_factor": st.sampled_from([1, 4]),
        "free_phase": st.sampled_from(["contrastive", "persistent"]),
        "validation_fraction": st.sampled_from([0.0, 0.05, 0.4]),
    }
)


def small(**settings: Any) -> orbm.CumulativeRBM:
    return orbm.CumulativeRBM.binary(n_epochs=1, n_draws=3, n_jobs=1, random_state=0, **settings)


@given(survey_cases(), SETTINGS)
@cases(50)
def test_learning_from_any_table(survey: Case, settings: dict[str, Any]) -> None:
    with case("survey tables"):
        model, said = told(small(scales=survey.scales, **settings).fit, survey.table)
        assert_sound(model, survey.table, said)


@given(survey_cases(), tables(), st.integers(-3, 5))
@cases(30)
def test_asking_about_any_other_table(learnt: Case, other: Any, how: int) -> None:
    try:
        model, _ = told(small(n_factors=2, scales=learnt.scales).fit, learnt.table)
    except orbm.DataError:
        return
    with case("tables beside the learnt one"):
        table = _varied(learnt.table, how) if how > 0 else other
        _, said = told(model.transform, table)
        assert_sound(model, table, said)


def _varied(table: Any, how: int) -> Any:
    """The learnt table as users bring it later: as objects, as numbers, cut, or without rows."""
    if not isinstance(table, pd.DataFrame):
        return table[:1] if isinstance(table, np.ndarray | list) else table
    if how == 1:
        return table.astype(object)
    if how == 2:
        return table.iloc[::-1]
    if how == 3:
        return table.iloc[:, ::-1]
    if how == 4:
        return table.to_numpy()
    return pd.concat([table, table.iloc[:1].shift(1)], ignore_index=True)


def assert_sound(model: orbm.CumulativeRBM, table: Any, said: list[str]) -> None:
    n_rows, n_columns = told(as_table, table)[0].n_rows, model.n_features_in_
    factors, _ = told(model.transform, table)
    assert factors.shape == (n_rows, model.n_factors)
    assert np.isfinite(factors).all() and (factors >= 0).all() and (factors <= 1).all()
    distributions, _ = told(model.predict_proba, table)
    for distribution, scale in zip(distributions, model.scales_, strict=True):
        assert distribution.shape == (n_rows, scale.n_levels)
        assert np.isfinite(distribution).all() and (distribution >= 0).all()
        np.testing.assert_allclose(distribution.sum(axis=1), 1.0, atol=1e-5)
    mean, _ = told(model.predict, table, "mean")
    assert mean.shape == (n_rows, n_columns) and np.isfinite(mean).all()
    answers = given_answers(table)
    if any("zeros" in text for text in said):
        answers = [(i, j, value) for i, j, value in answers if value != 0]
    assert_kept(told(model.impute, table)[0], answers, (n_rows, n_columns))
    if answers:
        score, _ = told(model.score, table)
        assert np.isfinite(score) and score <= 0
    else:
        assert refused(model.score, table)


def assert_kept(imputed: Any, answers: list[tuple[int, int, Any]], shape: tuple[int, int]) -> None:
    """Every answer is where it was: none was dropped, none was read as another."""
    assert imputed.shape == shape
    columns = [
        (imputed.iloc[:, j] if isinstance(imputed, pd.DataFrame) else imputed[:, j]) for j in range(shape[1])
    ]
    values = [column.to_list() if hasattr(column, "to_list") else list(column) for column in columns]
    assert not any(pd.isna(value) for column in values for value in column)
    for i, j, value in answers:
        assert _same(values[j][i], value), f"row {i}, column {j}: {value!r} is now {values[j][i]!r}"


def _same(found: Any, value: Any) -> bool:
    if isinstance(value, numbers.Real | Decimal | np.bool_) and not isinstance(found, str):
        # Narrow floats are read as they are written, and the smallest have no digit to spare.
        spare = float(np.finfo(np.float32).smallest_subnormal)
        return bool(np.isclose(float(found), float(value), rtol=2e-6, atol=spare))
    return found == value or str(found) == str(value)


def test_enough_was_legal_and_enough_refused() -> None:
    for name in ("survey tables", "tables beside the learnt one"):
        tally = TALLIES[name]
        assert tally.legal >= 0.2 * tally.cases, name
        assert tally.refused >= 0.1 * tally.cases, name
