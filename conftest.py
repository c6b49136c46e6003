"""What tests do without: modules that need torch, where it is not installed."""

from importlib.util import find_spec

collect_ignore_glob = []
if not find_spec("torch"):
    collect_ignore_glob += ["tests/distributed/*.py"]
if not find_spec("torch") or not find_spec("triton"):
    collect_ignore_glob += [
        "src/ordinalrbm/engine/gpu/*.py", "src/ordinalrbm/infer/on_gpu.py", "tests/gpu/*.py"
    ]  # fmt: skip
