"""Figures for Prometheus, which forked workers count together.

All series are known from the start, and are numbers in memory that processes share: each worker adds to a
line of its own, and whoever is asked adds up the lines.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator, Sequence

import numpy as np

_LIMITS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, np.inf)
_STATUSES = (200, 400, 401, 403, 404, 405, 408, 413, 415, 422, 500, 503)
_OTHER = "other"
_SMALLEST = 1e-12
_LOSS, _ENTROPY = "rating_log_loss_sum", "rating_entropy_sum"
_HELP = {
    "request_seconds": "Seconds from a request to the end of its answer.",
    "requests_total": "Requests by path and status.",
    "model_swaps_total": "New model files that were loaded, or refused.",
    "ratings_total": "Ratings that came in for known items.",
    _LOSS: "Sum of -log p, p being what was predicted for a rating before it came.",
    _ENTROPY: "Sum of what the model expected of -log p: as much as the sum, if it is calibrated.",
}
Key = tuple[str, str]  # name, labels


class Metrics:
    """Counters of all workers."""

    def __init__(self, paths: Sequence[str], models: Sequence[str], n_workers: int) -> None:
        self._place = {key: k for k, key in enumerate(_series(paths, models))}
        shared = mmap.mmap(-1, 8 * n_workers * len(self._place))
        self._table = np.frombuffer(shared, dtype=np.float64).reshape(n_workers, -1)
        self._lock = threading.Lock()
        self.worker = 0  # which line is that of this process

    def _add(self, name: str, labels: str, amount: float = 1.0) -> None:
        with self._lock:
            self._table[self.worker, self._place[name, labels]] += amount

    def count_request(self, path: str, status: int, seconds: float) -> None:
        path = path if ("request_seconds_sum", f'path="{path}"') in self._place else _OTHER
        limit = next(limit for limit in _LIMITS if seconds <= limit)
        self._add("requests_total", f'path="{path}",status="{status if status in _STATUSES else _OTHER}"')
        self._add("request_seconds_bucket", f'path="{path}",le="{limit:g}"')
        self._add("request_seconds_sum", f'path="{path}"', seconds)

    def count_swap(self, model: str, result: str) -> None:
        self._add("model_swaps_total", f'model="{model}",result="{result}"')

    def count_ratings(self, model: str, expected: np.ndarray, level: np.ndarray) -> None:
        """How ratings compare with their predictive distributions, (n, L), of before they came."""
        own, n, chance = f'model="{model}"', np.arange(level.size), np.maximum(expected, _SMALLEST)
        self._add("ratings_total", own, level.size)
        self._add(_LOSS, own, float(-np.log(chance[n, level]).sum()))
        self._add(_ENTROPY, own, float(-(expected * np.log(chance)).sum()))

    def render(self) -> str:
        total, lines = dict(zip(self._place, self._table.sum(axis=0).tolist(), strict=True)), []
        for name, text in _HELP.items():
            is_histogram = f"{name}_sum" in {own for own, _ in total}
            kind = "histogram" if is_histogram else "counter"
            lines += [f"# HELP ordinalrbm_{name} {text}", f"# TYPE ordinalrbm_{name} {kind}"]
            found = _histogram(name, total) if is_histogram else _of_name(name, total)
            lines += [f"ordinalrbm_{line}" for line in found]
        return "\n".join(lines) + "\n"


def _series(paths: Sequence[str], models: Sequence[str]) -> Iterator[Key]:
    for path in (*paths, _OTHER):
        own = f'path="{path}"'
        yield "request_seconds_sum", own
        yield from (("request_seconds_bucket", f'{own},le="{limit:g}"') for limit in _LIMITS)
        yield from (("requests_total", f'{own},status="{status}"') for status in (*_STATUSES, _OTHER))
    for model in models:
        own = f'model="{model}"'
        yield from (("model_swaps_total", f'{own},result="{result}"') for result in ("loaded", "refused"))
        yield from ((name, own) for name in ("ratings_total", _LOSS, _ENTROPY))


def _of_name(name: str, total: dict[Key, float]) -> Iterator[str]:
    return (
        f"{name}{{{labels}}} {value:.10g}" for (own, labels), value in total.items() if own == name and value
    )


def _histogram(name: str, total: dict[Key, float]) -> Iterator[str]:
    """Buckets have those below them, too."""
    for path in [labels for (own, labels), value in total.items() if own == f"{name}_sum" and value]:
        counts = np.cumsum([total[f"{name}_bucket", f'{path},le="{limit:g}"'] for limit in _LIMITS])
        for limit, count in zip(_LIMITS, counts, strict=True):
            le = "+Inf" if np.isinf(limit) else f"{limit:g}"
            yield f'{name}_bucket{{{path},le="{le}"}} {count:.0f}'
        yield f"{name}_sum{{{path}}} {total[f'{name}_sum', path]:.6f}"
        yield f"{name}_count{{{path}}} {counts[-1]:.0f}"
