"""Examples of what is no part of the public interface, run as doctests."""


def example_of_ids():
    r"""
    >>> from ordinalrbm.data.columns import *
    >>> ids = Ids(np.array(["anne", "carl"], dtype=object))
    >>> ids.lookup(["carl", "bert"])
    array([ 1, -1])
    >>> ids.take([0, 0]).tolist()
    ['anne', 'anne']
    """


def example_of_candidates():
    r"""
    >>> from ordinalrbm.data.triples import *
    >>> candidates(["Customer ID", "product_id", "stars", "score"], "user")
    ['Customer ID']
    >>> candidates(["stars", "score"], "rating"), candidates(["stars", "Rating"], "rating")
    (['stars', 'score'], ['Rating'])
    """


def example_of_needed():
    r"""
    >>> from ordinalrbm.engine.memory import *
    >>> films = Size(6_000, 4_000, 10**6, levels=5, row_factors=50)
    >>> 20 < needed("ordinal_mf", films) / 2**20 < 60
    True
    >>> survey = Size(100_000, 80, 8 * 10**6, levels=5, row_factors=50)
    >>> 100 < needed("survey", survey) / 2**20 < 300
    True
    """


def example_of_on_gpu():
    r"""
    >>> from ordinalrbm.engine.memory import *
    >>> films = Size(480_189, 17_770, 100_000_000, levels=5, row_factors=100)
    >>> 5.5e9 < on_gpu(films) < 6.5e9
    True
    """


def example_of_format_bytes():
    r"""
    >>> from ordinalrbm.engine.memory import *
    >>> format_bytes(3_400_000), format_bytes(12_345_678_901)
    ('3 MB', '12.3 GB')
    """


def example_of_log_mass():
    r"""
    >>> from ordinalrbm.engine.normal_reference import *
    >>> float(np.round(log_mass(40.0, np.inf), 6))
    -804.608442
    """


def example_of_truncated_mean():
    r"""
    >>> from ordinalrbm.engine.normal_reference import *
    >>> float(np.round(truncated_mean(-np.inf, 0.0), 6))
    -0.797885
    """


def example_of_parquet_ratings():
    r"""
    >>> from ordinalrbm.files.ratings import *
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "films.parquet"
    >>> films = pd.DataFrame({"userId": [1, 2, 3], "movieId": [7, 7, 8], "rating": [4, 5, 3]})
    >>> films.to_parquet(file, row_group_size=1)
    >>> ratings = ParquetRatings(file)
    >>> ratings.n_ratings
    3
    >>> ratings.part(rank=1, size=3)
       user  item  rating
    0     2     7       5
    """


def example_of_ratings_of():
    r"""
    >>> from ordinalrbm.files.ratings import *
    >>> from ordinalrbm.files.formats import from_frame
    >>> ratings_of(from_frame(pd.DataFrame({"score": [4], "user_id": ["u"], "item": ["i"]})))
      user item  rating
    0    u    i       4
    """


def example_of_latest_of_each():
    r"""
    >>> from ordinalrbm.files.ratings import *
    >>> ratings = pd.DataFrame({"user": [1, 2, 1], "item": ["a", "a", "a"], "rating": [3, 4, 5]})
    >>> latest_of_each(ratings, None)["rating"].tolist()
    [4, 5]
    >>> latest_of_each(ratings, np.array([9, 1, 2]))["rating"].tolist()
    [3, 4]
    """


def example_of_read_side_table():
    r"""
    >>> from ordinalrbm.files.ratings import *
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = file.write_text("customer_id,age\n1,20\n2,30\n")
    >>> read_side_table(file, "user", pd.Series(["1", "007"]))
      user  age
    0    1   20
    1    2   30
    """


def example_of_printed():
    r"""
    >>> from ordinalrbm.files.tables_out import *
    >>> printed(-0.457, "r"), printed(0.0004, "p"), printed(1.0, "r"), printed(None, ".2f")
    ('−.46', '< .001', '1.00', '')
    """


def example_of_each_block():
    r"""
    >>> from ordinalrbm.runtime.blocks import *
    >>> each_block(lambda rows: rows.stop - rows.start, 300_000)
    [262144, 37856]
    """


def example_of_seconds_of():
    r"""
    >>> from ordinalrbm.runtime.timing import *
    >>> seconds_of("5 min"), seconds_of("5")
    (300.0, None)
    """


def example_of_printable():
    r"""
    >>> from ordinalrbm.runtime.display import *
    >>> print(printable("red \x1b[31m, turned \u202e"))
    red \u001b[31m, turned \u202e
    """


def example_of_printable_json():
    r"""
    >>> from ordinalrbm.runtime.display import *
    >>> print(printable_json('"turned \u202e"'))
    "turned \\u202e"
    """


def example_of_current():
    r"""
    >>> from ordinalrbm.runtime.process_group import *
    >>> current() is None
    True
    """


def example_of_seed_from():
    r"""
    >>> from ordinalrbm.runtime.threads import *
    >>> seed_from(0) == seed_from(0)
    True
    """


def example_of_stage():
    r"""
    >>> from ordinalrbm.runtime.timing import *
    >>> with timings() as seconds, stage("sorting"):
    ...     _ = sorted(range(1000))
    >>> list(seconds)
    ['sorting']
    """


def example_of_sorts():
    r"""
    >>> from ordinalrbm.schema.schema import *
    >>> Column("Q1", "ordinal", missing=(8, 9), missing_names=("Refused", "DK")).sorts
    {8: 'refused', 9: "don't know"}
    """


def example_of_longest_runs():
    r"""
    >>> from ordinalrbm.stats.person_fit import *
    >>> longest_runs(np.array([[1, 1, 1, 2], [0, 2, 2, -1]]), np.array([5, 5, 5, 5])).tolist()
    [3, 2]
    """


def example_of_early_stopping():
    r"""
    >>> from ordinalrbm.training.schedule import *
    >>> stopping = EarlyStopping(patience=2, worthwhile=0.1)
    >>> [stopping.after(value) for value in (-1.5, -1.2, -1.19, -1.18)]
    [True, True, True, True]
    >>> stopping.best_epoch, stopping.is_over
    (4, True)
    """


def example_of_schedule():
    r"""
    >>> from ordinalrbm.training.schedule import *
    >>> schedule = Schedule(0.1, n_epochs=10, patience=1, fall=0.2)
    >>> rates = []
    >>> while schedule.rate() > 0.0:
    ...     rates.append(round(float(schedule.rate()), 3))
    ...     better = schedule.after(-1.0)  # never better than the first
    >>> rates
    [0.1, 0.1, 0.1, 0.05]
    """


def example_of_column():
    r"""
    >>> from ordinalrbm.data.columns import *
    >>> column = read_column(["often", None, "never", "often"], "Q1")
    >>> column.kind, column.codes.tolist(), list(column.distinct)
    ('text', [0, -1, 1, 0], ['often', 'never'])
    """


def example_of_each():
    r"""
    >>> from ordinalrbm.runtime.blocks import *
    >>> each(len, ["a", "bcd"], 4)
    [1, 3]
    """
