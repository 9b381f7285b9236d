"""`python -m samc`: the command line, for a package that runs from source."""

from samc.cli import main

main()
