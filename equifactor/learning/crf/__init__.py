"""Conditional random fields as torch modules: ln Z, likelihood, marginals and MAP of potentials from any network."""
