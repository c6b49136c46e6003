"""Models of ratings on Ray: learnt by workers together, predictions by tasks of Ray Data.

Needs ``pip install "ordinalrbm[ray]"`` on all machines of the cluster.
"""

import uuid
from typing import Any

import pyarrow as pa

from ordinalrbm import cluster
from ordinalrbm.errors import DataError

_PATIENCE = 300  # seconds until the workers must have their cores


def fit(dataset: Any, estimator: Any, num_workers: int, path: Any = None, **options: Any) -> Any:
    """Learn from a Ray Dataset: the fitted estimator, that of one process to float rounding.

    As :func:`ordinalrbm.spark.fit`; each worker takes ``n_jobs`` cores of the estimator, by default one.
    Rows go from store to store of Ray's objects, and none to the driver.
    """
    ray, path = cluster.package("ray", "ray"), cluster.seen_by_all(path)
    columns = cluster.columns_to_learn(estimator, num_workers, "num_workers", dataset.columns())
    # Before the workers take the cores: reading needs some, too.
    parts = dataset.select_columns(columns).repartition(num_workers).to_arrow_refs()
    group = ray.util.placement_group([{"CPU": max(estimator.n_jobs or 1, 1)}] * num_workers)
    try:
        workers = _workers(ray, group)
        address = ray.get(workers[0].meet.remote())
        places = (cluster.Place(rank, num_workers, address) for rank in range(num_workers))
        work = zip(workers, parts, places, strict=True)
        outcomes = [each.learn.remote(estimator, part, place, options, path) for each, part, place in work]
        return cluster.learnt(ray.get(outcomes), estimator, path)
    finally:
        ray.util.remove_placement_group(group)  # and the workers with it


def predict(model: Any, dataset: Any, **options: Any) -> Any:
    """A Dataset with a column prediction beside user, item and all others, by the model's ``predict``.

    The model is put into Ray's store, and loaded once by each of Ray's worker processes; or it is a path or
    an address, which these read.
    """
    cluster.package("ray.data", "ray")
    return _asked("predict", model, dataset, options)


def recommend(model: Any, users: Any, n: int = 10, **options: Any) -> Any:
    """A Dataset with the columns user, item, rank and score, by the model's ``recommend``.

    Users are a Dataset with the column user, where each comes once, ids, or "all".
    """
    ray = cluster.package("ray", "ray")
    if not hasattr(users, "map_batches"):
        table = cluster.users_table(cluster.seen_by_all(model), users)
        users = cluster.package("ray.data", "ray").from_arrow(table)
        users = users.repartition(int(ray.cluster_resources()["CPU"]))
    return _asked("recommend", model, users, {"n": n, **options})


def _asked(method: str, model: Any, dataset: Any, options: dict[str, Any]) -> Any:
    ray, model = cluster.package("ray", "ray"), cluster.seen_by_all(model)
    question = cluster.question(
        method, model, dataset.columns(), options, lambda work: ray.get(ray.remote(lambda: work()).remote())
    )
    stored = ray.put(model if isinstance(model, str) else cluster.to_bytes(model))
    # In a list it stays in the store.
    given = {"question": question, "content": [stored], "name": uuid.uuid4().hex}
    return dataset.map_batches(_answer, batch_size=None, batch_format="pyarrow", fn_kwargs=given)


def _answer(table: pa.Table, question: cluster.Question, content: list[Any], name: str) -> pa.Table:
    return question.answer(table, name, lambda: cluster.package("ray", "ray").get(content[0]))


def _workers(ray: Any, group: Any) -> list[Any]:
    """A worker on the cores of each bundle, once all are free: workers wait for one another."""
    n, cores = len(group.bundle_specs), int(group.bundle_specs[0]["CPU"])
    if not group.wait(_PATIENCE):
        raise DataError(
            f"The cluster has not had {n} times {cores} free cores within {_PATIENCE} s; wait until other "
            "work has ended, or learn with a smaller num_workers."
        )
    on_bundle = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy
    worker = ray.remote(num_cpus=cores)(_Worker)
    return [worker.options(scheduling_strategy=on_bundle(group, k)).remote(cores) for k in range(n)]


class _Worker:
    """One of those that learn together."""

    def __init__(self, n_jobs: int) -> None:
        self.n_jobs, self.store = n_jobs, None

    def meet(self) -> str:
        """Where the others find this one, the first."""
        self.store, address = cluster.meeting_point(cluster.package("ray.util", "ray").get_node_ip_address())
        return address

    def learn(
        self, estimator: Any, ratings: pa.Table, place: cluster.Place, options: Any, path: str | None
    ) -> cluster.Outcome:
        """Learn with the others."""
        place = place._replace(store=self.store)
        return cluster.learn(estimator, ratings, place, self.n_jobs, options, path)
