"""Settings shared by all tests."""

from hypothesis import settings

# The same examples on every machine and no time limit per example: a slow machine must not turn tests red.
settings.register_profile("equifactor", max_examples=40, deadline=None, derandomize=True, database=None)
settings.load_profile("equifactor")
