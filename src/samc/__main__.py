"""`samc` and `python -m samc`: the command line, with an end to every Ctrl-C from the first moment on."""

from samc.interrupt import ending_at_once


def main() -> None:
    with ending_at_once():
        from samc.cli import main as run  # noqa: PLC0415  (importing it takes a while)
    run()


if __name__ == "__main__":
    main()
