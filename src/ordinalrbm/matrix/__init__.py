"""From parameters and answers to posteriors, predictions and likelihoods."""
