"""The HTML page of some runs, panel by panel."""
