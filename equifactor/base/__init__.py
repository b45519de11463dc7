"""What all other folders use: errors, options and their text form, the clock, progress, files."""
