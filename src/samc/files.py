"""Files that are written whole, or not at all; and where some lie."""

import os
import secrets
from pathlib import Path


def write_whole(path: Path, content: bytes, *, replace: bool, spare: Path | None = None) -> None:
    """Through a temporary file beside it, so that a reader or a full disk never meets half of it.

    Over a file that is there only if told so; else FileExistsError, once the content is safe under the `spare` name if
    there is one.
    """
    # a process's number would not do: two machines that share a folder may both have it
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(temporary, path)
        else:
            take(path, temporary)
    except FileExistsError:
        if spare is not None:
            os.replace(temporary, spare)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def take(path: Path, temporary: Path) -> None:
    """Give a file a name that must be free; a rename would take another file's place unasked."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without second names: the name is taken first, empty
        path.touch(exist_ok=False)
        os.replace(temporary, path)


def folders_with(name: str, folder: Path) -> list[Path]:
    """The folders in this one that hold such a file: what a user who named this one may have meant."""
    return sorted(path.parent for path in folder.glob(f"*/{name}"))
