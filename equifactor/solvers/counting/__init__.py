"""Sums by search: weighted model counting with component caching, and the circuits that a search leaves behind."""
