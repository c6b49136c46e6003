"""What everything else stands on: compiling, threads, processes."""
