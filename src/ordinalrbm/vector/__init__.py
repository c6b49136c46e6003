"""Parameters of the models and what follows from them; no data, no learning."""
