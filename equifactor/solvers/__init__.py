"""One solver per file; the file's name is the solver's name. `equifactor.spec` finds them by itself."""
