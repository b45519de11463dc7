"""Running work on the cores of this machine or on a Dask cluster.

fleet.py          the interface, and fleets of this machine
cluster.py        the fleet of a Dask cluster
shipped_files.py  files that are sent along with work
code_version.py   the version of the code, which must be the same on all machines
"""
