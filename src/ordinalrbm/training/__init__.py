"""From answers to parameters: chains, updates, the loop."""
