"""What users call.

An estimator that stands in ``ESTIMATORS`` is public, can be saved and loaded, and, if it learns from
ratings, can be chosen with ``--model``.
"""

# By the kind of its model files: its module in this package, and its name. Modules are imported when
# they are first needed, because the libraries behind them take seconds to import.
ESTIMATORS = {
    "vector": ("survey", "CumulativeRBM"),
    "ordinal_mf": ("ordinal_mf", "OrdinalMF"),
    "matrix_crbm": ("matrix", "MatrixCumulativeRBM"),
    "gaussian_mf": ("ordinal_mf", "GaussianMF"),
    "multinomial_rbm": ("multinomial", "MultinomialRBM"),
}
