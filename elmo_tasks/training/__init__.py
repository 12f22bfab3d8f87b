"""Training runs that can be repeated, survive a kill, and run in parallel."""
