"""The solvers, one folder per family; the table in `equifactor.registry` names them all."""
