"""What tests do without: folders and modules that need torch, where it is not installed."""

from importlib.util import find_spec

collect_ignore = []
if not find_spec("torch"):
    collect_ignore += ["tests/distributed"]
if not find_spec("torch") or not find_spec("triton"):
    collect_ignore += ["tests/gpu", "src/ordinalrbm/engine/gpu", "src/ordinalrbm/infer/on_gpu.py"]
