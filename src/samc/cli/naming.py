"""Names of files that a user asks for: each kind has its ending, so that no slip replaces a file of another kind."""

from pathlib import Path

from samc.errors import OutputError


def check_ending(flag: str, path: Path, what: str, *endings: str) -> None:
    if path.suffix.lower() not in endings:
        raise OutputError(f"{flag} is {what}'s name that ends in {' or '.join(endings)}, got {path}")
