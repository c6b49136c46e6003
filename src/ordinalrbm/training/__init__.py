"""What all learners share: the loop, early stopping, divergence, checkpoints."""
