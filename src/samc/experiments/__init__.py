"""Experiments: sets of runs that together make a table or a figure."""
