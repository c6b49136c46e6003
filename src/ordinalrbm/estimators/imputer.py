"""OrdinalImputer: CumulativeRBM as a scikit-learn transformer that fills missing values."""

from typing import Any, Literal, Self

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from ordinalrbm.data.frames import TableLike
from ordinalrbm.data.questionnaire import ColumnList, GivenScales
from ordinalrbm.errors import DataTypeError
from ordinalrbm.estimators.survey import CumulativeRBM, RandomState
from ordinalrbm.estimators.validation import check_choice, keep_parameters

_OWN = ("rule", "estimator")  # all other parameters are those of the model


class OrdinalImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill the missing values of ordinal columns with a :class:`CumulativeRBM`, in a pipeline.

    Values that are given stay. For multiple imputation see :meth:`CumulativeRBM.impute`.

    Parameters
    ----------
    n_factors, nominal, numeric, background, scales, random_state, n_jobs
        As in :class:`CumulativeRBM`.
    rule : {"median", "mode"}, default="median"
        Fill with the level in the middle of the predicted distribution, which has the smallest
        absolute error, or with the most likely one, which is right most often.
    estimator : CumulativeRBM or None, default=None
        Where parameters that are not given here are taken from; it is cloned.

    Attributes
    ----------
    model_ : CumulativeRBM
        The fitted model, which can be saved; the imputer itself can be pickled.
    n_features_in_, feature_names_in_
        Number and, for data frames, names of the columns.

    Examples
    --------
    >>> import numpy as np, ordinalrbm as orbm
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> X = np.array([[1, 1], [2, 2], [3, 3], [3, np.nan]] * 20)
    >>> imputer = orbm.OrdinalImputer(n_factors=1, random_state=0)
    >>> make_pipeline(imputer, LogisticRegression()).fit(X, X[:, 0] > 2).score(X, X[:, 0] > 2)
    1.0
    """

    def __init__(
        self,
        n_factors: int | None = None,
        *,
        rule: Literal["median", "mode"] = "median",
        nominal: ColumnList = None,
        numeric: ColumnList = None,
        background: ColumnList = None,
        scales: GivenScales = None,
        random_state: RandomState = None,
        n_jobs: int | None = None,
        estimator: CumulativeRBM | None = None,
    ) -> None:
        keep_parameters(self, locals())

    def fit(self, X: TableLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from a table of answers; see :meth:`CumulativeRBM.fit`."""
        check_choice("rule", self.rule, ("median", "mode"))
        if not isinstance(self.estimator, CumulativeRBM | None):
            raise DataTypeError(
                f"estimator must be a CumulativeRBM, not {type(self.estimator).__name__}; ratings of users "
                "and items are predicted by the models of ratings themselves."
            )
        model = CumulativeRBM() if self.estimator is None else clone(self.estimator)
        own = self.get_params(deep=False).items()
        model.set_params(**{name: value for name, value in own if name not in _OWN and value is not None})
        self.model_ = model.fit(X, sample_weight=sample_weight)
        self.__dict__.pop("feature_names_in_", None)
        for name in {"n_features_in_", "feature_names_in_"} & set(vars(model)):
            setattr(self, name, getattr(model, name))
        return self

    def transform(self, X: TableLike) -> Any:
        """X without missing values, in the type of table that X is."""
        check_is_fitted(self, "model_")
        return self.model_.impute(X, self.rule, fill_never_asked=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags
