"""What the solver `auto` does beyond picking: mixes of methods, one file per task."""
