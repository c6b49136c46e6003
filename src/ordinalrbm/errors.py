"""What the library raises when its input is wrong."""

import sys


class DataError(ValueError):
    """Bad input: one sentence that names the place, the value and the remedy.

    It is a ``ValueError``, so code that guards scikit-learn estimators catches it as usual.

    Examples
    --------
    >>> from ordinalrbm.errors import DataError
    >>> issubclass(DataError, ValueError)
    True
    """


class DataTypeError(DataError, TypeError):
    """Bad input of a kind that can never be an answer (a dictionary, a date).

    It is a ``TypeError`` too, because scikit-learn's estimator checks ask for one here.
    """


class DiskError(DataError):
    """A result cannot be written though nothing was wrong with the input: the disk is full.

    It is a ``DataError``, so that code that catches those catches these too.
    """


class LostError(DataError):
    """Another process of a group has ended or cannot be reached; a ``DataError`` likewise."""


def user_stacklevel() -> int:
    """The stacklevel with which a warning names the line that called this package."""
    frame, level = sys._getframe(1), 1
    package = __name__.partition(".")[0]
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    return level
