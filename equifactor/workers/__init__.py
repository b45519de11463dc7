"""Where work runs: on the cores of this machine, or on a Dask cluster."""
