"""The vector model: parameters, and the Side they make with some answers.

Questions are ordered scales, nominal or numbers. Kernels know columns, each with weights of its own:
a scale and a number are one column, a nominal question is a column for each of its categories.
"""

from typing import Any, Literal, NamedTuple, Self

import numpy as np

from ordinalrbm.data.observations import Observations, level_type
from ordinalrbm.data.questionnaire import NOMINAL, NUMERIC, ORDINAL, Answers
from ordinalrbm.engine import gibbs, thresholds
from ordinalrbm.engine import side as engine
from ordinalrbm.engine.side import Side
from ordinalrbm.errors import DataError
from ordinalrbm.runtime.blocks import over_rows
from ordinalrbm.storage.reader import Stored

# Arrays that a model of nothing but scales, without background, does not have.
OPTIONAL = ("kind", "slopes", "factor_slopes")
_NO_KINDS = np.zeros(0, dtype=np.int8)
_NO_SLOPES = np.zeros((0, 0), dtype=np.float32)

MOST_UNITS = 10_000  # of a factor
MOST_STYLES = 100
_SMALLEST_STRETCH = 1e-9
# Of the logarithm of what a standard deviation of a number is as a utility, to either side.
_LARGEST_LOG_SCALE = 20.0
_ROUNDING = 1e-3

# The mean of a logistic of a normal of variance v is the logistic of its mean over √(1 + v c).
LOGISTIC_OF_NORMAL = 0.368

Unanswered = Literal["absent", "latent"]


class Layout(NamedTuple):
    """The columns that questions become.

    Of a number there are two levels: its scale takes the place of the threshold between them.
    """

    kind: np.ndarray  # (N,) of each question
    first: np.ndarray  # (N + 1,) the first column of each question, and the number of columns
    members: np.ndarray  # (columns,) as in :class:`ordinalrbm.engine.side.Side`
    n_levels: np.ndarray  # (columns,)

    @property
    def is_category(self) -> np.ndarray:
        return (self.members > 0) | (self.members == engine.CATEGORY)

    @property
    def is_number(self) -> np.ndarray:
        return self.members == engine.NUMBER

    @property
    def question(self) -> np.ndarray:
        return np.repeat(np.arange(self.kind.size), np.diff(self.first))

    @property
    def nominal(self) -> list[tuple[int, slice]]:
        return [
            (question, self.columns(question)) for question in np.flatnonzero(self.kind == NOMINAL).tolist()
        ]

    def columns(self, question: int) -> slice:
        return slice(int(self.first[question]), int(self.first[question + 1]))


def layout_of(kind: np.ndarray, n_levels: np.ndarray) -> Layout:
    """Return the columns of questions of these kinds (all ordered scales if ``kind`` is empty)."""
    kind = kind if kind.size else np.full(n_levels.size, ORDINAL, np.int8)
    first = np.concatenate([[0], np.cumsum(np.where(kind == NOMINAL, n_levels, 1))]).astype(np.int64)
    members = np.full(first[-1], engine.CATEGORY, dtype=np.int32)
    members[first[:-1]] = np.choose(kind, [engine.ORDINAL, n_levels, engine.NUMBER])
    levels = np.ones(first[-1], dtype=np.int32)
    levels[first[:-1]] = np.choose(kind, [n_levels, 1, 2])
    return Layout(kind, first, members, levels)


class VectorModel(NamedTuple):
    """Parameters of the Cumulative RBM for vectors.

    There are N questions; a question is one column, but for nominal ones, which are a column for
    each of their categories: N' columns in all. A factor is made of binary ``units`` with the same
    weights and bias: the model is the Cumulative RBM with each column of ``weights`` so often. In each
    style of using the scales, thresholds are multiplied by one of the ``stretches``. The last three
    are of length zero where all questions are scales, and where there are no covariates.
    """

    weights: np.ndarray  # (N', K) float32, w
    bias: np.ndarray  # (N',) float32, α
    factor_bias: np.ndarray  # (K,) float32, γ
    # (N', L − 1) float64, τ: first threshold, log gaps above; of a number the log of its scale
    cutpoints: np.ndarray
    n_levels: np.ndarray  # (N,) int32, levels or categories of each question, one of a number
    units: int = 1
    stretches: np.ndarray = np.ones(1)  # (G,); a single one is the plain model
    style_weights: np.ndarray = np.ones(1)  # (G,) the share of rows with each style
    kind: np.ndarray = _NO_KINDS  # (N,) int8, see :mod:`ordinalrbm.data.questionnaire`
    slopes: np.ndarray = _NO_SLOPES  # (N', P) float32, what a row's covariates add to its utilities
    factor_slopes: np.ndarray = _NO_SLOPES  # (K, P) float32, and to the biases of its factors

    @property
    def n_factors(self) -> int:
        return self.weights.shape[1]

    @property
    def n_covariates(self) -> int:
        return self.slopes.shape[1]

    @property
    def has_styles(self) -> bool:
        return self.stretches.size > 1

    @property
    def layout(self) -> Layout:
        return layout_of(self.kind, self.n_levels)

    @property
    def thresholds(self) -> np.ndarray:
        """Bounds of all levels, (N', L + 3); see :func:`ordinalrbm.engine.thresholds.table`.

        The second number of a column of numbers is the utility of one standard deviation.
        """
        plan = self.layout
        bounds = thresholds.table(self.cutpoints, plan.n_levels)
        bounds[plan.is_number, 1] = np.exp(self.cutpoints[plan.is_number, 0])
        return bounds

    @classmethod
    def from_stored(
        cls, stored: Stored, n_levels: list[int], kind: np.ndarray = _NO_KINDS, n_covariates: int = 0
    ) -> Self:
        """Return the model of a file, whose questions must be of these kinds and levels."""
        plan = layout_of(kind, np.array(n_levels, dtype=np.int32))
        n_columns, width = plan.members.size, thresholds.n_cutpoints(plan.n_levels)
        weights = stored.parameter("weights", np.float32, (n_columns, None))
        stretches = stored.parameter("stretches", np.float64, (None,), _SMALLEST_STRETCH)
        if not 1 <= stretches.size <= MOST_STYLES or not weights.size:
            raise DataError("it has no factors, no response styles or too many of them")
        model = cls(
            weights=weights,
            bias=stored.parameter("bias", np.float32, (n_columns,)),
            factor_bias=stored.parameter("factor_bias", np.float32, weights.shape[1:]),
            cutpoints=stored.parameter(
                "cutpoints", np.float64, (n_columns, width), high=thresholds.LARGEST_CUTPOINT
            ),
            n_levels=stored.checked_array("n_levels", np.int32, (len(n_levels),)),
            units=stored.whole("units", 1, MOST_UNITS),
            stretches=stretches,
            style_weights=stored.checked_array("style_weights", np.float64, stretches.shape, 0.0, 1.0),
        )
        if kind.size:
            model = model._replace(kind=stored.checked_array("kind", np.int8, kind.shape, 0, 2))
        if n_covariates:
            of_factors = (weights.shape[1], n_covariates)
            model = model._replace(
                slopes=stored.parameter("slopes", np.float32, (n_columns, n_covariates)),
                factor_slopes=stored.parameter("factor_slopes", np.float32, of_factors),
            )
        if not np.array_equal(model.kind, kind):
            raise DataError("its columns are of other kinds than their scales")
        if np.abs(model.cutpoints[plan.is_number, 0]).max(initial=0.0) > _LARGEST_LOG_SCALE:
            raise DataError("the scale of a column of numbers in it is too small or too large")
        if model.n_levels.tolist() != n_levels:
            raise DataError("its columns have other numbers of levels than their scales")
        if abs(model.style_weights.sum() - 1.0) > _ROUNDING:
            raise DataError("the shares of its response styles do not add up to one")
        return model

    def copy(self) -> Self:
        arrays: dict[str, Any] = {name: np.array(getattr(self, name)) for name in ARRAYS}
        return self._replace(**arrays)


# The parameters of a model that are arrays.
ARRAYS = tuple(name for name in VectorModel._fields if name != "units")


def factor_type(units: int) -> type[np.unsignedinteger]:
    return np.uint8 if units <= np.iinfo(np.uint8).max else np.uint16


def random_factors(n_rows: int, model: VectorModel, rng: np.random.Generator) -> np.ndarray:
    """Return (rows, K) factors with every unit a fair coin."""
    return rng.binomial(model.units, 0.5, size=(n_rows, model.n_factors)).astype(factor_type(model.units))


def side(
    model: VectorModel,
    observations: Observations,
    unanswered: Unanswered = "absent",
    row_weight: np.ndarray | None = None,
) -> Side:
    """Return the model's parameters over some answers.

    An unanswered variable is absent from its row's model, or there with an unknown answer
    ("latent"): then its utility is integrated over, and every row has all columns.
    """
    bounds = model.thresholds
    unknown = thresholds.unknown_level(bounds)
    covariates = observations.covariates
    known = np.zeros(0, dtype=np.float32)
    if model.kind.size:
        observations, known = in_columns(observations, model.layout, unknown)
    if unanswered == "latent":
        observations, known = _with_unknown(observations, known, unknown, bool(model.kind.size))
    view = observations.column_view
    this = Side(
        row_start=observations.row_start,
        column=observations.column,
        level=observations.level,
        column_start=view.column_start,
        entry_row=view.row,
        entry=view.entry,
        offset=np.zeros(0, dtype=np.float32),
        row_weight=np.zeros(0, dtype=np.float32) if row_weight is None else row_weight,
        stretch=np.zeros(0, dtype=np.float32),
        row_gaps=np.zeros((0, 0), dtype=np.float32),
        weights=_writable(model.weights),
        bias=_writable(model.bias),
        thresholds=bounds,
        factor_bias=_writable(model.factor_bias),
        units=model.units,
        members=model.layout.members if model.kind.size else np.zeros(0, dtype=np.int32),
        known=known,
    )
    return _with_covariates(this, model, covariates) if model.n_covariates else this


def _writable(array: np.ndarray) -> np.ndarray:
    """The array, or a copy if it is mapped from a file: kernels would be compiled again for that."""
    return np.require(array, requirements="W")


def in_columns(answers: Observations, plan: Layout, unknown: int) -> tuple[Observations, np.ndarray]:
    """Return answers to questions as answers of columns, and what is known of each; see ``Side.known``.

    Unknown answers have a level below zero here, and the level ``unknown`` there.
    """
    width = np.diff(plan.first)[answers.column]
    entry = np.repeat(np.arange(answers.n_entries), width)
    start = np.concatenate([[0], np.cumsum(width)])
    category = np.arange(entry.size) - start[entry]
    question = answers.column[entry]
    kind, level = plan.kind[question], answers.level[entry]
    known = np.full(entry.size, np.nan, dtype=np.float32)
    nominal, numeric = (kind == NOMINAL) & (level >= 0), kind == NUMERIC
    known[nominal] = category[nominal] == level[nominal]
    known[numeric] = answers.entry_numbers()[entry[numeric]]
    # A question may have more categories than any scale has levels, but these are no levels here.
    kind_of_level = level_type(np.append(plan.n_levels, unknown + 1))
    observations = Observations(
        row_start=start[answers.row_start],
        column=(plan.first[question] + category).astype(np.int32),
        level=np.where(level < 0, unknown, np.where(nominal, 0, level)).astype(kind_of_level),
        n_levels=plan.n_levels,
    )
    return observations, known


def _with_unknown(
    observations: Observations, known: np.ndarray, unknown: int, is_mixed: bool
) -> tuple[Observations, np.ndarray]:
    """Fill every gap with the level of unknown answers."""
    shape, cells = (
        (observations.n_rows, observations.n_columns),
        (observations.cells().row, observations.column),
    )
    level = np.full(shape, unknown, dtype=level_type(unknown))
    level[cells] = observations.level
    filled = _every_column(*shape, level.reshape(-1), observations.n_levels)
    if not is_mixed:
        return filled, known
    everything = np.full(shape, np.nan, dtype=np.float32)
    everything[cells] = known
    return filled, everything.reshape(-1)


def _every_column(n_rows: int, n_columns: int, level: np.ndarray, n_levels: np.ndarray) -> Observations:
    return Observations(
        row_start=np.arange(n_rows + 1, dtype=np.int64) * n_columns,
        column=np.tile(np.arange(n_columns, dtype=np.int32), n_rows),
        level=level,
        n_levels=n_levels,
    )


def _with_covariates(this: Side, model: VectorModel, covariates: np.ndarray) -> Side:
    n_entries = this.column.size
    some_are_categories = bool(this.members.size and model.layout.is_category.any())
    this = this._replace(
        covariates=np.ascontiguousarray(covariates, dtype=np.float32),
        shift=np.zeros(n_entries, dtype=np.float32),
        offset=np.zeros(n_entries if some_are_categories else 0, dtype=np.float32),
        row_bias=np.zeros((this.n_rows, model.n_factors), dtype=np.float32),
    )
    follow_covariates(this, model, 0, this.n_rows)
    return this


def follow_covariates(this: Side, model: VectorModel, start: int, stop: int) -> None:
    """Put what the covariates of some rows add, by the model's slopes, into the side's arrays.

    To categories it is added as a bias would be; utilities of scales and numbers are shifted.
    """
    rows = this.rows(start, stop)
    rows.row_bias[:] = rows.covariates @ model.factor_slopes.T
    nothing = np.zeros(stop - start, dtype=np.float32)
    arguments = rows.row_start, rows.column, rows.covariates, nothing, model.slopes, this.shift
    over_rows(gibbs.fill_offsets, stop - start, *arguments)
    if this.offset.size:
        here = slice(int(rows.row_start[0]), int(rows.row_start[-1]))
        is_category = model.layout.is_category[this.column[here]]
        this.offset[here] = np.where(is_category, this.shift[here], 0.0)
        this.shift[here][is_category] = 0.0


def with_parameters(this: Side, model: VectorModel) -> Side:
    return this._replace(
        weights=model.weights, bias=model.bias, thresholds=model.thresholds, factor_bias=model.factor_bias
    )


def complete_rows(model: VectorModel, n_rows: int) -> Observations:
    """Return rows that have every column, with unknown answers and, if there are any, average covariates.

    The free model is over these.
    """
    n_questions = model.n_levels.size
    # Numbers and categories have no level for an unknown answer.
    unknown = -1 if model.kind.size else thresholds.unknown_level(model.thresholds)
    # The type as in answers: for levels of another one, all kernels would be compiled once more.
    level = np.full(n_rows * n_questions, unknown, dtype=level_type(unknown))
    rows = _every_column(n_rows, n_questions, level, model.n_levels)
    if not model.kind.size and not model.n_covariates:
        return rows
    numbers = np.full((n_rows, np.count_nonzero(model.kind == NUMERIC)), np.nan)
    return Answers.of(rows, model.kind, numbers, np.zeros((n_rows, model.n_covariates)))
