"""Exact inference by variable elimination: an order, a plan that prints its cost, two passes over its clusters."""
