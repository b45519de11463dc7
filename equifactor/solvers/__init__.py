"""The solvers, one folder per family; the table in `equifactor.solving.registry` names them all."""
