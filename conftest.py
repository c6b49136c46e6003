"""What is missing on this machine: tests that need it are skipped, and say what they need.

And what tests of several rooms need.
"""

from __future__ import annotations

import doctest
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# Whatever else cannot be imported is an error, ours included.
MAY_BE_MISSING = [
    "arviz", "fastapi", "filelock", "httpx2", "hypothesis", "jinja2", "matplotlib", "mlflow", "mpmath",
    "polars", "pyarrow", "pydantic", "pyreadstat", "pyspark", "ray", "rich", "safetensors", "starlette",
    "threadpoolctl", "torch", "tqdm", "triton", "typer", "uvicorn",
]  # fmt: skip
MISSING = {package for package in MAY_BE_MISSING if not find_spec(package)}
# Tests that show what they need only when they run, in processes of their own.
NEEDED = {
    "tests/cli": ["pyreadstat", "safetensors", "filelock"],
    "tests/clusters/test_mlflow.py": ["mlflow"],
    "tests/clusters/test_ray.py": ["ray", "torch"],
    "tests/clusters/test_spark.py": ["pyspark", "torch"],
    "tests/distributed": ["torch", "safetensors", "filelock"],
    "tests/distributed/test_torchrun.py": ["pyreadstat"],
    "tests/extreme/test_extreme_commands.py": ["pyreadstat", "safetensors", "filelock"],
    "tests/training/test_checkpoints_killed.py": ["pyreadstat", "safetensors", "filelock"],
    "tests/runtime/test_surroundings.py": ["pyreadstat", "safetensors", "filelock"],
    "tests/runtime/test_without_torch.py": ["pyreadstat"],
    "tests/runtime/test_workers.py": ["safetensors"],
    "tests/storage": ["safetensors", "filelock"],
}


# Where chains are short on purpose; what is said of them is tested in tests/matrix/test_sampled.py.
SHORT_CHAINS = [
    "tests/conformance", "tests/distributed", "tests/fuzz", "tests/gpu", "tests/matrix",
    "tests/storage",
]  # fmt: skip


def pytest_collection_modifyitems(items):
    """Chains that are short on purpose may be said to be."""
    for item in items:
        place = item.path.relative_to(HERE).as_posix() if item.path.is_relative_to(HERE) else ""
        if any(place.startswith(f"{folder}/") for folder in SHORT_CHAINS):
            item.add_marker(pytest.mark.filterwarnings("ignore:The chain has not mixed"))


def pytest_configure(config):
    """Processes that share the cores take one thread each; tests of threads ask for more."""
    if hasattr(config, "workerinput"):
        import numba

        numba.set_num_threads(1)


@pytest.fixture
def ctrl_c_arrives():
    """Let SIGINT through, here and in programs started from here.

    Whoever starts the tests in the background of a script, or with nohup, has it ignored.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Skip a file that needs, or imports, a package that is not there."""
    report = yield
    package = _missing(report.call.excinfo)
    for place, needed in NEEDED.items():
        if collector.path.is_relative_to(HERE / place):
            package = next((each for each in needed if each in MISSING), package)
    if package is None:
        return report
    reason = (str(collector.path), 0, f"Skipped: needs {package}, which is not installed")
    return pytest.CollectReport(collector.nodeid, "skipped", reason, [])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    """Skip a test whose fixtures come upon such a package."""
    with _skipping():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Skip a test that comes upon such a package while it runs.

    Not upon torch: without it there is a sentence of ours, which is tested everywhere.
    """
    with _skipping():
        return (yield)


@contextmanager
def _skipping() -> Iterator[None]:
    try:
        yield
    except (ModuleNotFoundError, doctest.UnexpectedException) as error:
        cause = error.exc_info[1] if isinstance(error, doctest.UnexpectedException) else error
        package = _named(cause) if isinstance(cause, ModuleNotFoundError) else None
        if package in (None, "torch", "triton"):
            raise
        pytest.skip(f"needs {package}, which is not installed")


def _missing(excinfo: pytest.ExceptionInfo | None) -> str | None:
    """The package for want of which a file could not be imported."""
    error = excinfo.value if excinfo else None
    while error is not None and not isinstance(error, ModuleNotFoundError):
        error = error.__cause__
    return None if error is None else _named(error)


def _named(error: ModuleNotFoundError) -> str | None:
    package = (error.name or "").partition(".")[0]
    return package if package in MISSING else None
