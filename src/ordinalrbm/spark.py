"""Models of ratings on Spark: learnt by a barrier stage, predictions by the executors.

Needs ``pip install "ordinalrbm[spark]"`` where the driver runs and on the executors.
"""

import uuid
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from ordinalrbm import cluster
from ordinalrbm.data.triples import COLUMNS
from ordinalrbm.errors import DataError

# Bytes of a model file that travel as one row: Java takes several times as much for each.
_PIECE = 1 << 20


def fit(dataframe: Any, estimator: Any, num_processes: int, **options: Any) -> Any:
    """Learn from a Spark DataFrame: the fitted estimator, that of one process to float rounding.

    Parameters
    ----------
    dataframe : pyspark.sql.DataFrame with the columns user, item and rating
        Or others whose names say as much; more columns, also times, are left alone. Rows go from
        executor to executor, and none to the driver.
    estimator : OrdinalMF
        Its settings. ``n_jobs`` is for each process, by default ``spark.task.cpus``.
    num_processes : int
        Tasks that learn together; as many slots must be free at the same time.
    **options : of its ``fit``, for example ``checkpoint``, a folder that all executors see
    """
    cluster.package("pyspark", "spark")
    columns = cluster.columns_to_learn(estimator, num_processes, "num_processes", dataframe.columns)
    quoted = ("`" + name.replace("`", "``") + "`" for name in columns)
    # Under other names: those with a point are not for mapInArrow.
    parts = dataframe.select(*quoted).toDF(*COLUMNS).repartition(num_processes)
    work = partial(_learn, estimator, options)
    rows = parts.mapInArrow(work, "content binary, error string, size long", barrier=True).collect()
    size = max((row.size for row in rows), default=1)
    if sum(len(row.content) for row in rows) < size:  # out of memory, Spark gives back less, and no error
        raise DataError(
            "The model did not come back whole from the executors; give the driver more memory "
            "(spark.driver.memory), three times what the model file takes and 500 MiB."
        )
    return cluster.learnt([(row.content, row.error) for row in rows], estimator)


def predict(model: Any, dataframe: Any, **options: Any) -> Any:
    """A DataFrame with a column prediction beside user, item and all others, by the model's ``predict``.

    The model is broadcast, and loaded once by each Python process of Spark.
    """
    cluster.package("pyspark", "spark")
    question = cluster.Question.of("predict", model, dataframe.columns, options)
    return _asked(model, dataframe, question, dataframe.schema.fields)


def recommend(model: Any, users: Any, n: int = 10, **options: Any) -> Any:
    """A DataFrame with the columns user, item, rank and score, by the model's ``recommend``.

    Users are a DataFrame with the column user, where each comes once, ids, or "all".
    """
    sql = cluster.package("pyspark.sql", "spark")
    if not hasattr(users, "mapInArrow"):
        users = sql.SparkSession.builder.getOrCreate().createDataFrame(cluster.users_table(model, users))
    question = cluster.Question.of("recommend", model, users.columns, {"n": n, **options})
    who = sql.types.StructField("user", users.schema[question.columns[0]].dataType)
    return _asked(model, users, question, [who])


def _asked(model: Any, dataframe: Any, question: cluster.Question, fields: Iterable[Any]) -> Any:
    """The question's answer for each part of a frame: these fields, and what is added."""
    types = cluster.package("pyspark.sql.pandas.types", "spark")
    schema = cluster.package("pyspark.sql.types", "spark").StructType(list(fields))
    for name, kind in question.added.items():
        schema = schema.add(name, types.from_arrow_type(kind))
    content = dataframe.sparkSession.sparkContext.broadcast(cluster.to_bytes(model))
    return dataframe.mapInArrow(partial(_answers, question, uuid.uuid4().hex, content), schema)


def _answers(
    question: cluster.Question, name: str, content: Any, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        table = pa.Table.from_batches([batch])
        yield from question.answer(table, name, lambda: content.value).to_batches()


def _learn(estimator: Any, options: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Learn with the other tasks of the stage; the first gives the model in pieces."""
    context = cluster.package("pyspark", "spark").BarrierTaskContext.get()
    infos, rank = context.getTaskInfos(), context.partitionId()
    store, address = None, ""
    if rank == 0 and len(infos) > 1:
        store, address = cluster.meeting_point(infos[0].address.split(":")[0])
    place = cluster.Place(rank, len(infos), context.allGather(address)[0], store)
    rows = list(batches)
    ratings = pa.Table.from_batches(rows) if rows else pa.table({})
    content, error = cluster.learn(estimator, ratings, place, context.cpus(), options)
    for start in range(0, max(len(content), 1), _PIECE):
        piece = {"content": [content[start : start + _PIECE]], "error": [error], "size": [len(content)]}
        yield pa.RecordBatch.from_pydict(piece)
