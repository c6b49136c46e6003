"""The half-sweep: random numbers, interval mathematics, a plain truth and fast kernels."""
