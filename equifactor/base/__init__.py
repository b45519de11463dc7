"""What every other folder uses: errors, options, clock, progress, files. It knows nothing of graphs."""
