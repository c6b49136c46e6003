"""What tests do without: modules that need torch, where it is not installed."""

from importlib.util import find_spec

collect_ignore_glob = (
    []
    if find_spec("torch") and find_spec("triton")
    else ["src/ordinalrbm/engine/gpu/*.py", "src/ordinalrbm/infer/on_gpu.py", "tests/gpu/*.py"]
)
