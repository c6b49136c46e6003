"""Ratings that several processes bring together, each some of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ordinalrbm.data.exchange import encode_shared, everywhere, read_shared
from ordinalrbm.data.observations import Cells
from ordinalrbm.data.ratings import Ratings, encode, read_ratings
from ordinalrbm.errors import DataError
from ordinalrbm.runtime import process_group
from ordinalrbm.runtime.process_group import ALONE, Alone, Group
from ordinalrbm.training.checkpoint import digest

if TYPE_CHECKING:
    from ordinalrbm.files.parquet_parts import ParquetRatings


class RatingsPart:
    """Some of the ratings; the other processes of a torch process group bring the others.

    :meth:`MatrixCumulativeRBM.fit` takes it in place of ratings and of validation ratings. The
    model is that of one process with all ratings, to float rounding. Outside a process group, these
    are all ratings that there are.

    Every rating is in the part of one process; in which one does not matter, and a process may have
    none. Rows are counted through the parts in the order of the processes.

    Parameters
    ----------
    ratings : DataFrame (pandas or polars) with the columns user, item and rating, or tuple of three
        arrays in this order

    See Also
    --------
    from_parquet : A part of a file or of a folder that all processes see.

    Examples
    --------
    >>> import numpy as np, ordinalrbm as orbm
    >>> users, items = np.divmod(np.arange(60), 6)
    >>> part = orbm.RatingsPart((users, items, 1 + (users + items) % 3))
    >>> orbm.MatrixCumulativeRBM(2, 2, n_epochs=2, random_state=0).fit(part).n_iter_
    2
    """

    def __init__(self, ratings: Any) -> None:
        self._ratings = ratings
        self._unread: ParquetRatings | None = None

    @classmethod
    def from_parquet(cls, path: str | os.PathLike) -> RatingsPart:
        """The part of this process of a Parquet file, or of a folder of such files.

        All processes give the same path. Each reads only its share of the row groups of the files,
        in their order, and of these only the columns of users, items and ratings; not now, but when
        it learns, so that the table is freed as soon as the ratings are encoded.

        Parameters
        ----------
        path : str or path
            Columns may have the names that ``ordinalrbm fit`` understands, such as userId. Rows
            that are written as one row group are read by one process: write at least as many as
            there are processes.

        Examples
        --------
        >>> import os, tempfile, numpy as np, pandas as pd, ordinalrbm as orbm
        >>> users, items = np.divmod(np.arange(60), 6)
        >>> ratings = pd.DataFrame({"user": users, "item": items, "rating": 1 + users % 3})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ratings.to_parquet(os.path.join(folder, "1.parquet"), row_group_size=10)
        ...     part = orbm.RatingsPart.from_parquet(folder)
        ...     model = orbm.MatrixCumulativeRBM(2, 2, n_epochs=2, random_state=0).fit(part)
        >>> model.ratings_.n_ratings
        60
        """
        # Whoever has no files need not wait for what reads them.
        from ordinalrbm.files.parquet_parts import ParquetRatings

        return cls._of_files(ParquetRatings(path))

    @classmethod
    def _of_files(cls, unread: ParquetRatings) -> RatingsPart:
        """The same of files that have been looked at."""
        part = cls(None)
        part._unread = unread
        return part

    def table(self) -> Any:
        """The ratings of this process."""
        if self._unread is None:
            return self._ratings
        here = process_group.current() or ALONE
        return self._unread.part(here.rank, here.size)


def read(
    ratings: Any, *, scale: Any, item_scales: Any, may_be_shared: bool
) -> tuple[Ratings, Alone | Group]:
    """Ratings that were given to a fit, and the processes that they are shared among.

    Shared ratings are those of this process's users. Where a learner wants all of them, they are
    not shared: all processes have all ratings, however they were given.
    """
    how = {"scale": scale, "item_scales": item_scales}
    group, is_part = process_group.current(), isinstance(ratings, RatingsPart)
    if group is not None and may_be_shared and not group.agree(is_part):
        raise DataError(
            "Some processes of this run were given a RatingsPart and others all ratings; give all "
            "of them the same."
        )
    if not is_part:
        return read_ratings(ratings, **how), ALONE
    if group is None:
        return read_ratings(ratings.table(), **how), ALONE
    known = read_shared(ratings.table, group, **how)
    return (known, group) if may_be_shared else (everywhere(known, group), ALONE)


def read_validation(known: Ratings, ratings: Any, among: Alone | Group) -> Cells | None:
    """Validation ratings that were given to a fit; all processes have all of them."""
    if isinstance(among, Group) and not among.agree(type(ratings).__name__):
        raise _different_validation()
    if ratings is None:
        return None
    if isinstance(ratings, RatingsPart):
        group = process_group.current()
        if group is not None:
            return encode_shared(known, ratings.table, group)
        return encode(known, ratings.table())
    given = among.together(lambda: encode(known, ratings))
    if isinstance(among, Group) and not among.agree(digest(*given)):
        raise _different_validation()
    return given


def _different_validation() -> DataError:
    return DataError(
        "The processes of this run were given different validation ratings; give all of them the "
        "same, or give each its own as a RatingsPart."
    )
