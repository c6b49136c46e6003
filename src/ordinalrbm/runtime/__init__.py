"""What everything else stands on: compiling, threads, processes."""

__version__ = "0.1.0"
