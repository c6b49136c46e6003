"""Ratings that several processes bring together, each some of them, perhaps of the same Parquet files."""

import os
from typing import Any, Self

import pandas as pd
import pyarrow as pa

from ordinalrbm.data.triples import COLUMNS, Part
from ordinalrbm.errors import DataError
from ordinalrbm.files import formats
from ordinalrbm.files.ratings import AS_IT_IS, TIME, Layout, columns_of, time_column
from ordinalrbm.runtime import process_group
from ordinalrbm.runtime.places import place
from ordinalrbm.schema.source import Source, StrPath, name_of


class ParquetRatings:
    """A Parquet file or a folder of them, partitioned or not, of which only the outlines are read.

    What is in it, and in which order, is what `ordinalrbm.files.formats.read` finds. Its ``source``
    has the names of the columns, and no row.
    """

    def __init__(self, path: StrPath, layout: Layout = AS_IT_IS) -> None:
        self.path = place(path)
        if formats.format_on_disk(self.path) != "parquet":
            raise DataError(
                f"File '{path}' is no Parquet file, which alone can be read in parts; convert it "
                "or give the ratings as a table."
            )
        with formats.reading(self.path):
            files = formats.parquet(self.path)
            self._schema = files.schema
            self._row_groups = [
                group for file in files.get_fragments() for group in file.split_by_row_group()
            ]
        self._sizes = [group.row_groups[0].num_rows for group in self._row_groups]
        self.n_ratings = sum(self._sizes)
        names = pd.DataFrame(columns=self._schema.names)
        self.source = Source(self.path, "parquet", name_of(self.path), names)
        self._columns = columns_of(self.source, layout=layout) + time_column(self.source, layout)

    def part(self, rank: int, size: int) -> pd.DataFrame:
        """The columns user, item, rating and perhaps timestamp of what a process reads; maybe no row.

        It reads whole row groups, those whose middle is in its part of all rows.
        """
        outline, start = self._schema.empty_table().select(self._columns), 0
        tables = [outline]
        with formats.reading(self.path):
            for group, n_rows in zip(self._row_groups, self._sizes, strict=True):
                if (2 * start + n_rows) * size // (2 * self.n_ratings) == rank:
                    tables.append(group.to_table(self._schema, self._columns))
                start += n_rows
            frame = formats.frame_of_arrow(pa.concat_tables(tables), self.path)
        return frame.set_axis([*COLUMNS, TIME][: len(self._columns)], axis=1)


class RatingsPart(Part):
    """Some of the ratings; the other processes of a torch process group bring the others.

    :meth:`OrdinalMF.fit` takes it in place of ratings and of validation ratings. The model is that
    of one process with all ratings, to float rounding. Outside a process group, these are all
    ratings that there are.

    Every rating is in the part of one process; in which one does not matter, and a process may have
    none. Rows are counted through the parts in the order of the processes.

    Parameters
    ----------
    ratings : DataFrame (pandas or polars) with the columns user, item, rating and perhaps timestamp, or
        tuple of three arrays (user, item, rating)

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

    @classmethod
    def from_parquet(cls, path: str | os.PathLike) -> Self:
        """The part of this process of a Parquet file, or of a folder of such files.

        All processes give the same path. Each reads only its share of the row groups of the files,
        in their order, and of these only the columns of users, items, ratings and times; not now, but
        when it learns, so that the table is freed as soon as the ratings are encoded.

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
        return cls(ParquetRatings(path))

    def table(self) -> Any:
        if not isinstance(self._ratings, ParquetRatings):
            return self._ratings
        here = process_group.current() or process_group.ALONE
        return self._ratings.part(here.rank, here.size)
