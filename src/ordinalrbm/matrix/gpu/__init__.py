"""The matrix models on a GPU."""
