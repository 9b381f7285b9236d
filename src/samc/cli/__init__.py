"""The command line. Nothing imports it; everything it does is a call that Python users have too."""

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer

from samc.cli import data, demo, memory, report, reproduce, run
from samc.cli.drawing import plain_where_needed
from samc.errors import UserError
from samc.version import VERSION

INTERRUPTED = 130
# the exit code of a program that Ctrl-C has stopped

HELP = """Continual learning in a fixed memory.

Examples:

  samc run                                       SAMC on the embedded stream

  samc run --model gem --dataset split-cifar100  a rival on real data

  samc data fetch cifar100                       get the official files

  samc models                                    all methods, one line each

  samc report runs                               mean and deviation

  samc reproduce table1 --quick                  a table of the paper

  samc results results/paper                     one page of all runs

  samc compare runs/demo/gem runs/demo/samc      two runs in detail

  samc memory info runs/first                    what it remembers

  samc demo                                      three methods and a picture
"""


def app() -> typer.Typer:
    """All commands; each module has its own."""
    commands = typer.Typer(
        help=HELP,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"token_normalize_func": lambda token: token.replace("_", "-")},
    )
    commands.callback()(samc)
    commands.command("run")(run.command())
    commands.command("demo")(demo.demo)
    commands.command("models")(report.models)
    commands.command("report")(report.report)
    commands.command("reproduce")(reproduce.reproduce)
    commands.command("results")(report.results)
    commands.command("compare")(report.compare)
    commands.add_typer(data.app, name="data")
    commands.add_typer(memory.app, name="memory")
    return commands


def show_version(asked: bool) -> None:
    if asked:
        print(VERSION)
        raise typer.Exit


def samc(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """What stands before a command."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; a mistake that the user can mend is one line and exit code 2."""
    plain_where_needed()
    try:
        with orderly():
            result = typer.main.get_command(app())(args=arguments, prog_name="samc", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        result = INTERRUPTED
    except UserError as error:
        fail(str(error), 2)
    except OSError as error:  # a full disk, a vanished folder: the system's words are the clearest
        fail(f"{error.strerror or error}: {error.filename or 'output'}; check the path and the free space", 2)
    except Exception as error:
        # typer's own complaints about flags: which class they are depends on its version, what they offer does not
        if not hasattr(error, "format_message"):
            raise
        message, context = error.format_message(), getattr(error, "ctx", None)
        if message.startswith("Usage:"):  # a command without its subcommand
            print(message)
            sys.exit(2)
        fail(f"{message.rstrip('.')}; see: {context.command_path if context else 'samc'} --help", 2)
    if result == INTERRUPTED:  # newer versions of typer return it, older ones raise
        fail("interrupted; nothing half-written is left", INTERRUPTED)
    sys.exit(result if isinstance(result, int) else 0)


@contextmanager
def orderly() -> Iterator[None]:
    """A command that is told to end, or whose terminal is gone, first ends what it has started, as after Ctrl-C."""

    def stop(number: int, frame: Any) -> NoReturn:
        sys.exit(128 + number)

    main_thread = threading.current_thread() is threading.main_thread()
    # one that is ignored, as under nohup, stays so
    heard = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is signal.SIG_DFL]
    for each in heard if main_thread else ():
        signal.signal(each, stop)
    try:
        yield
    finally:
        for each in heard if main_thread else ():
            signal.signal(each, signal.SIG_DFL)


def fail(message: str, code: int) -> NoReturn:
    print(f"samc: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)
