"""What every part rests on: errors, options and their text form, the clock, progress, files."""
