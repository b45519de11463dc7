"""Kinds of factors: one folder per kind with its meaning, kernels, moves and tensors, and what all kinds share."""
