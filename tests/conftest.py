"""Settings shared by all tests."""

from importlib.util import find_spec

from hypothesis import settings
from jaxtyping import install_import_hook

# The same examples on every machine and no time limit per example: a slow machine must not turn tests red.
settings.register_profile("equifactor", max_examples=40, deadline=None, derandomize=True, database=None)
settings.load_profile("equifactor")

# Shapes of tensors are checked while the tests run, and only then.
if find_spec("beartype"):
    install_import_hook("equifactor.ops", "beartype.beartype")
