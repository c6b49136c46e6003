"""What tests do without: folders and modules that need torch, where it is not installed."""

from importlib.util import find_spec

collect_ignore: list[str] = []
if not find_spec("torch"):
    collect_ignore += ["tests/distributed"]
if not find_spec("torch") or not find_spec("triton"):
    collect_ignore += ["tests/gpu", "src/ordinalrbm/engine/gpu"]
    collect_ignore += ["src/ordinalrbm/matrix/gpu"]
