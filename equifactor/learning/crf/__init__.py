"""Conditional random fields as torch modules: ln Z, likelihood, marginals and MAP for potentials from any network."""
