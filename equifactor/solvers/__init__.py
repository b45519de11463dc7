"""One solver per file; the file's name is the solver's name. `equifactor.registry` finds them by itself."""
