"""The command line. Nothing imports it; everything it does is a call that Python users have too."""

import importlib
import keyword
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from samc.cli.terminal import replace_unknown_characters, say
from samc.errors import UserError, printable, shortened, unknown
from samc.interrupt import CTRL_C, INTERRUPTED, LEFT, MESSAGE, ending_at_once
from samc.stopping import Stopped
from samc.version import VERSION

HELP = """Continual learning in a fixed memory.

Examples:

  samc run                                       SAMC on the embedded stream

  samc run --model gem --dataset split-cifar100  a rival on real data

  samc data fetch cifar100                       get the official files

  samc models                                    all methods, one line each

  samc report runs                               mean and deviation

  samc report runs --out report.html             one page that shows all

  samc view runs/first                           the same while it runs

  samc search --grid lr=0.01,0.03,0.1            choose without test images

  samc reproduce table1 --quick                  a table of the paper

  samc results results/paper                     one page of all runs

  samc compare runs/a runs/b                     two runs in detail

  samc memory info runs/first                    what it remembers

  samc continue runs/first --dataset npz:b.npz   learn next month's data

  samc predict runs/first --task 0 cat.png       ask what was learnt

  samc explain cat.png --run runs/first --task 0 why it says so

  samc export runs/first --onnx first.onnx       its network elsewhere

  samc pretrain --help                           weights for completion

  samc demo                                      three methods and a picture
"""
COMMANDS = {
    "run": ("samc.cli.run", "Learn a stream with one method and write a record."),
    "demo": ("samc.cli.demo", "Three methods on the embedded stream at equal true bytes."),
    "models": ("samc.cli.models", "List every method; or one of them with its flags."),
    "report": ("samc.cli.report", "Runs side by side: a table, or a page that shows all."),
    "view": ("samc.cli.view", "The page of a run in the browser, while it goes on."),
    "search": ("samc.cli.search", "Which values of a method's settings do best, held out."),
    "reproduce": ("samc.cli.reproduce", "Tables and figures of the paper."),
    "results": ("samc.cli.report", "One page of all runs of the paper's tables and figures."),
    "compare": ("samc.cli.report", "Two runs in detail, if they were made on equal terms."),
    "data": ("samc.cli.data", "Data sets: list, check, fetch."),
    "memory": ("samc.cli.memory", "What a run remembers: info, show, audit."),
    "continue": ("samc.cli.continuing", "Learn new tasks with the learner of a finished run."),
    "predict": ("samc.cli.predict", "Ask a finished run for the class of images."),
    "explain": ("samc.cli.explain", "Why a finished run says what it says of an image."),
    "export": ("samc.cli.export", "A finished run's network as ONNX or TorchScript."),
    "pretrain": ("samc.cli.pretrain", "Weights for SAMC's autoencoder, from another data set."),
}
# where each command is, and what it does in one line; a module is imported when its command is used
PLAIN: dict[str, Any] = {"add_completion": False, "rich_markup_mode": None}


class LazyGroup(TyperGroup):
    """Commands that are imported when they are used: --help and --version need none of them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            raise unknown("command", cmd_name, COMMANDS)
        with ending_at_once({**CTRL_C, signal.SIGTERM: stop, signal.SIGHUP: stop}):
            module = importlib.import_module(COMMANDS[cmd_name][0])
        if hasattr(module, "app"):
            command = typer.main.get_command(module.app)
        else:
            alone = typer.Typer(**PLAIN)
            kind = {"cls": module.COMMAND_CLASS} if hasattr(module, "COMMAND_CLASS") else {}
            function = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
            alone.command(cmd_name, **kind)(getattr(module, function))
            command = typer.main.get_command(alone)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, meaning) for name, (_, meaning) in COMMANDS.items()])


def app() -> typer.Typer:
    """All commands; each module has its own."""
    commands = typer.Typer(
        help=HELP,
        no_args_is_help=True,
        cls=LazyGroup,
        context_settings={"token_normalize_func": lambda token: token.replace("_", "-")},
        **PLAIN,
    )
    commands.callback()(samc)
    return commands


def show_version(wanted: bool) -> None:
    if wanted:
        say(VERSION)
        raise typer.Exit


def samc(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """What stands before a command."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; a mistake that the user can mend is one line and exit code 2."""
    replace_unknown_characters()
    try:
        with orderly():
            result = typer.main.get_command(app())(args=arguments, prog_name="samc", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        result = INTERRUPTED
    except Stopped as stopped:
        fail(f"stopped; {stopped.remedy}", 128 + stopped.number)
    except UserError as error:
        fail(str(error), 2)
    except MemoryError as error:
        fail(f"there is not enough memory ({error or 'no more is known'}); use fewer or smaller images", 2)
    except OSError as error:  # a full disk, a vanished folder: the system's words are the clearest
        fail(f"{error.strerror or error}: {error.filename or 'output'}; check the path and the free space", 2)
    except Exception as error:
        # typer's own complaints about flags: which class they are depends on its version, what they offer does not
        if not hasattr(error, "format_message"):
            raise
        message, context = error.format_message(), getattr(error, "ctx", None)
        if message.startswith("Usage:"):  # a command without its subcommand
            say(*message.splitlines())
            sys.exit(2)
        fail(f"{message.rstrip('.')}; see: {context.command_path if context else 'samc'} --help", 2)
    if result == INTERRUPTED:  # newer versions of typer return it, older ones raise
        fail(MESSAGE, INTERRUPTED)
    sys.exit(result if isinstance(result, int) else 0)


def stop(number: int, frame: Any) -> NoReturn:
    raise Stopped(number, LEFT)


@contextmanager
def orderly() -> Iterator[None]:
    """A command that is told to end, or whose terminal is gone, first ends what it has started, as after Ctrl-C."""

    main_thread = threading.current_thread() is threading.main_thread()
    # one that is ignored, as under nohup, stays so
    heard = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    for number in heard if main_thread else ():
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in heard if main_thread else ():
            signal.signal(number, signal.SIG_DFL)


def fail(message: str, code: int) -> NoReturn:
    say(f"samc: {shortened(printable(' '.join(message.split())))}", error=True)
    sys.exit(code)
