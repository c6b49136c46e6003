"""Lengths of time as people write them."""


def seconds_of(text: str) -> float | None:
    """How long "30 s", "5 min" or "1 h" is; None if it is no length of time with a unit."""
    import pandas as pd

    try:
        # Without a unit these would be nanoseconds.
        seconds = pd.Timedelta(text).total_seconds() if text[-1:].isalpha() else -1.0
    except ValueError:
        return None
    return seconds if seconds >= 0.0 else None  # which "nat" is not
