"""The models of the paper's comparison: Gaussian and ordinal factorisation, multinomial RBM."""
