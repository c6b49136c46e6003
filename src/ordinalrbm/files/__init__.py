"""From a file to answers: what it holds, what its columns mean, and back into a file."""
