"""Model files: whole or not at all, every bit and every number checked."""
