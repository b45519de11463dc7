"""Sampling: marginals as averages over assignments drawn from the model."""
