"""Ratings that several processes bring together, each some of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ordinalrbm.data.triples import Part
from ordinalrbm.runtime import process_group

if TYPE_CHECKING:
    from ordinalrbm.files.parquet_parts import ParquetRatings


class RatingsPart(Part):
    """Some of the ratings; the other processes of a torch process group bring the others.

    :meth:`OrdinalMF.fit` takes it in place of ratings and of validation ratings. The model is that
    of one process with all ratings, to float rounding. Outside a process group, these are all
    ratings that there are.

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
    >>> orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit(part).n_iter_
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
        ...     model = orbm.OrdinalMF(2, n_epochs=2, random_state=0).fit(part)
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
        here = process_group.current() or process_group.ALONE
        return self._unread.part(here.rank, here.size)
