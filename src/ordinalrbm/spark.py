"""Models of ratings on Spark: learnt by a barrier stage, predictions by the executors.

Needs ``pip install "ordinalrbm[spark]"`` where the driver runs and on the executors.
"""

import uuid
from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from ordinalrbm import cluster
from ordinalrbm.errors import DataError

# Bytes of a model file that travel as one row: Java takes several times as much for each.
_PIECE = 1 << 20


def fit(dataframe: Any, estimator: Any, num_processes: int, path: Any = None, **options: Any) -> Any:
    """Learn from a Spark DataFrame: the fitted estimator, that of one process to float rounding.

    With a path the model is written there, and the path is what comes back.

    Parameters
    ----------
    dataframe : pyspark.sql.DataFrame with the columns user, item, rating and perhaps timestamp
        Or others whose names say as much; more columns are left alone. Rows go from
        executor to executor, and none to the driver.
    estimator : OrdinalMF
        Its settings. ``n_jobs`` is for each process, by default ``spark.task.cpus``.
    num_processes : int
        Tasks that learn together; as many slots must be free at the same time.
    path : str or path, optional
        Where an executor writes the model: an address such as ``s3://shop/films.orbm``, or a file in a
        folder that all executors see. Then nothing of it comes to the driver.
    **options : of its ``fit``, for example ``checkpoint``, a folder that all executors see
    """
    cluster.package("pyspark", "spark")
    columns = cluster.columns_to_learn(estimator, num_processes, "num_processes", dataframe.columns)
    quoted = ("`" + name.replace("`", "``") + "`" for name in columns)
    # Under other names: those with a point are not for mapInArrow.
    parts = dataframe.select(*quoted).toDF(*cluster.NAMES[: len(columns)]).repartition(num_processes)
    path = cluster.seen_by_all(path)
    work = partial(_learn, estimator, options, path)
    rows = parts.mapInArrow(work, "content binary, error string, size long", barrier=True).collect()
    size = max((row.size for row in rows), default=1)
    if sum(len(row.content) for row in rows) < size:  # out of memory, Spark gives back less, and no error
        raise DataError(
            "The model did not come back whole from the executors; give the driver more memory "
            "(spark.driver.memory), three times what the model file takes and 500 MiB, or give a path."
        )
    return cluster.learnt([(row.content, row.error) for row in rows], estimator, path)


def predict(model: Any, dataframe: Any, **options: Any) -> Any:
    """A DataFrame with a column prediction beside user, item and all others, by the model's ``predict``.

    The model is broadcast, and loaded once by each Python process of Spark; or it is a path or an address,
    which these read.
    """
    cluster.package("pyspark", "spark")
    return _asked("predict", model, dataframe, options)


def recommend(model: Any, users: Any, n: int = 10, **options: Any) -> Any:
    """A DataFrame with the columns user, item, rank and score, by the model's ``recommend``.

    Users are a DataFrame with the column user, where each comes once, ids, or "all".
    """
    sql = cluster.package("pyspark.sql", "spark")
    if not hasattr(users, "mapInArrow"):
        table = cluster.users_table(cluster.seen_by_all(model), users)
        users = sql.SparkSession.builder.getOrCreate().createDataFrame(table)
    return _asked("recommend", model, users, {"n": n, **options})


def _asked(method: str, model: Any, dataframe: Any, options: dict[str, Any]) -> Any:
    context, model = dataframe.sparkSession.sparkContext, cluster.seen_by_all(model)
    question = cluster.question(
        method,
        model,
        dataframe.columns,
        options,
        lambda work: context.parallelize([0], 1).map(lambda _: work()).first(),
    )
    types = cluster.package("pyspark.sql.pandas.types", "spark")
    sql = cluster.package("pyspark.sql.types", "spark")
    fields = list(dataframe.schema.fields)
    if method == "recommend":
        fields = [sql.StructField("user", dataframe.schema[question.columns[0]].dataType)]
    schema = sql.StructType(fields)
    for name, kind in question.added.items():
        schema = schema.add(name, types.from_arrow_type(kind))
    content = context.broadcast(model if isinstance(model, str) else cluster.to_bytes(model))
    return dataframe.mapInArrow(partial(_answers, question, uuid.uuid4().hex, content), schema)


def _answers(
    question: cluster.Question, name: str, content: Any, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        table = pa.Table.from_batches([batch])
        yield from question.answer(table, name, lambda: content.value).to_batches()


def _learn(
    estimator: Any, options: Any, path: str | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Learn with the other tasks of the stage; the first gives the model in pieces, or writes it."""
    context = cluster.package("pyspark", "spark").BarrierTaskContext.get()
    infos, rank = context.getTaskInfos(), context.partitionId()
    store, address = None, ""
    if rank == 0 and len(infos) > 1:
        store, address = cluster.meeting_point(infos[0].address.split(":")[0])
    place = cluster.Place(rank, len(infos), context.allGather(address)[0], store)
    rows = list(batches)
    ratings = pa.Table.from_batches(rows) if rows else pa.table({})
    content, error = cluster.learn(estimator, ratings, place, context.cpus(), options, path)
    for start in range(0, max(len(content), 1), _PIECE):
        piece = {"content": [content[start : start + _PIECE]], "error": [error], "size": [len(content)]}
        yield pa.RecordBatch.from_pydict(piece)
