"""Files that are written whole, or not at all, and the folders that hold some."""

import os
import secrets
from pathlib import Path


def write_whole(path: Path, content: bytes, *, replace: bool, spare: Path | None = None) -> None:
    """Write a file through a temporary one next to it, so that neither a reader nor a full disk leaves half of it.

    A file that is there is replaced only with `replace`; otherwise it is a FileExistsError, after the content has been
    saved under the `spare` name where there is one.
    """
    # a process id would not do: two machines that share a folder may both have it
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(temporary, path)
        else:
            link_free_name(path, temporary)
    except FileExistsError:
        if spare is not None:
            os.replace(temporary, spare)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def link_free_name(path: Path, temporary: Path) -> None:
    """Give a file a name that must be free; a rename would replace another file."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: an empty file takes the name first
        path.touch(exist_ok=False)
        os.replace(temporary, path)


def folders_with(name: str, folder: Path) -> list[Path]:
    """The folders directly in this one that hold a file of that name: what a user who named this one may have meant."""
    return sorted(path.parent for path in folder.glob(f"*/{name}"))
