"""Exact inference by variable elimination: an order, a plan that reports its cost, two passes over its clusters."""
