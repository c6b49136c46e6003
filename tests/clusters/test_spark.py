"""A real Spark: a driver and two executors, each a process of its own."""

import shutil
import sys
from pathlib import Path

import pytest
from long_form import only_long
from one_process import SETTINGS, assert_same_model, assert_same_table, environment, model, predicted, ratings

import ordinalrbm as orbm
from ordinalrbm import spark

pyspark = pytest.importorskip("pyspark")
pytestmark = [
    only_long,
    pytest.mark.skipif(shutil.which("java") is None, reason="needs Java"),
    pytest.mark.filterwarnings("ignore"),  # of what Spark imports
    pytest.mark.filterwarnings("error:::ordinalrbm"),
]


@pytest.fixture(scope="module")
def session():
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SPARK_HOME", str(Path(pyspark.__file__).parent))
        patched.setenv("PYSPARK_PYTHON", sys.executable)
        builder = pyspark.sql.SparkSession.builder.master("local-cluster[2,1,1024]")
        for name, value in environment().items():
            patched.setenv(name, value)
            builder = builder.config(f"spark.executorEnv.{name}", value)
        builder = builder.config("spark.ui.enabled", "false").config("spark.driver.memory", "1g")
        found = builder.getOrCreate()
        found.sparkContext.setLogLevel("OFF")
        yield found
        found.stop()


@pytest.fixture(scope="module")
def frame(session, tmp_path_factory):
    """With a name that Spark takes for a field of a field, unless it is quoted."""
    folder = tmp_path_factory.mktemp("spark")
    ratings().rename(columns={"userId": "user.id"}).to_parquet(folder / "ratings.parquet")
    return session.read.parquet(str(folder))


@pytest.mark.parametrize("num_processes", [1, 2])
def test_the_model_is_that_of_one_process(frame, num_processes):
    assert_same_model(spark.fit(frame, orbm.OrdinalMF(4, **SETTINGS), num_processes=num_processes))


def test_a_model_in_a_file_never_comes_to_the_driver(session, frame, tmp_path, monkeypatch):
    path = tmp_path / "films.orbm"
    assert spark.fit(frame, orbm.OrdinalMF(4, **SETTINGS), 2, path) == str(path)
    assert_same_model(orbm.load(path))
    truth = orbm.load(path).recommend("all", n=2)
    monkeypatch.setattr("ordinalrbm.cluster.load", None)  # here, and not in the executors
    users = session.createDataFrame([(user,) for user in model().users_.labels], ["userId"])
    assert_same_table(spark.recommend(path, users, n=2).toPandas(), truth, ["user", "rank"])
    pairs = frame.withColumnRenamed("user.id", "userId")
    assert spark.predict(path, pairs, rule="mode").toPandas()["prediction"].dtype == "int64"
    with pytest.raises(orbm.DataError, match="'rule' parameter must be"):
        spark.predict(path, pairs, rule="best")
    with pytest.raises(orbm.DataError, match=r"Folder '.*nowhere' does not exist"):
        spark.fit(frame, orbm.OrdinalMF(2), 2, tmp_path / "nowhere" / "films.orbm")


def test_pairs_are_predicted(session, tmp_path):
    ratings().to_parquet(tmp_path / "pairs.parquet")
    pairs = session.read.parquet(str(tmp_path))
    for rule in ("mean", "mode"):
        found = spark.predict(model(), pairs, rule=rule).toPandas()
        assert_same_table(found, predicted(rule), ["userId", "movieId"])


def test_lists_are_those_of_the_model(session):
    truth = model().recommend("all", n=3)
    for users in (
        "all",
        session.createDataFrame([(user,) for user in model().users_.labels], ["customerId"]),
    ):
        assert_same_table(spark.recommend(model(), users, n=3).toPandas(), truth, ["user", "rank"])


def test_what_is_wrong_with_the_ratings_is_said_by_the_driver(frame):
    missing = frame.withColumn("stars", pyspark.sql.functions.when(frame.stars > 1, frame.stars))
    with pytest.raises(orbm.DataError, match="the rating is missing; drop such rows"):
        spark.fit(missing, orbm.OrdinalMF(2), num_processes=2)
