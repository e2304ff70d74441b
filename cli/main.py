"""The command `treering`: its verbs, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NoReturn

import click

import treering

from .app import App
from .exits import Exit, exit_of
from .options import CONTEXT, VerbGroup, common_options

VERBS = {
    "ingest": "ingest:ingest",
    "query": "query:query",
    "explain": "query:explain",
    "export": "query:export",
    "sql": "sql:sql",
    "fields": "look:fields",
    "stats": "look:stats",
    "rejects": "look:rejects",
    "embed": "ingest:embed",
    "reembed": "reembed:reembed",
    "compact": "compact:compact",
    "delete": "erase:delete",
    "expire": "erase:expire",
    "audit": "audit:audit",
    "check": "check:check",
    "backup": "copies:backup",
    "restore": "copies:restore",
    "demo": "demo:demo",
    "completion": "completion:completion",
    "config": "config:config",
}
"""Every verb and the module and command that does it; a module is imported when its verb is named."""


EXAMPLES = (
    "treering query 'hallucination > 0.3 top 10 by hallucination' app.jsonl",
    "treering ingest app.jsonl.gz vllm.log",
    "treering query 'last 1h level >= error ~ \"ran out of KV cache\"'",
)
"""What a newcomer tries first."""


class Verbs(VerbGroup):
    """The group of verbs, each loaded on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the verbs in the order of a first day: in, out, look, maintain."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Load the verb `name`; an unknown one is refused with the nearest names."""
        if name not in VERBS:
            return None
        module, _, attribute = VERBS[name].partition(":")
        command = getattr(import_module(f"treering.cli.{module}"), attribute)
        return command if isinstance(command, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Refuse an unknown verb with the one that was probably meant."""
        import difflib

        near = difflib.get_close_matches(args[0], VERBS, n=1, cutoff=0.5)
        if args[0] not in VERBS and not args[0].startswith("-") and near:
            ctx.fail(f"No such command {args[0]!r}; did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)


@click.group(
    cls=Verbs,
    context_settings=CONTEXT,
    examples=EXAMPLES,
    epilog="Exit codes: 0 done, 1 nothing found with --fail-empty, 2 usage or query error, "
    "3 some records rejected, 4 store or I/O error, 130 interrupted.",
)
@click.version_option(treering.__version__, prog_name="treering", message="%(prog)s %(version)s")
@common_options
def cli() -> None:
    """Index and question the logs of LLM serving: by time, by meaning, by signal."""


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    sys.meta_path.insert(0, _WithoutPandas())
    sys.exit(run(sys.argv[1:]))


class _WithoutPandas:
    """An import hook of this process alone: Arrow imports pandas, where it is installed, at the first array it makes.

    No verb uses pandas, and it would take longer than most queries. The hook steps aside where a model is loaded,
    whose libraries ask for pandas in their own way; Arrow has made up its mind by then.
    """

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Refuse pandas and leave every other module to the usual finders."""
        if name in ("torch", "transformers"):
            sys.meta_path.remove(self)
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out of the command line", name=name)


def run(args: Sequence[str]) -> int:
    """Run one command line and give its exit code."""
    app = App()
    if instruction := os.environ.get("_TREERING_COMPLETE"):
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "treering", "_TREERING_COMPLETE", instruction)
    return guarded(lambda: _invoke(list(args), app), app)


def _invoke(args: list[str], app: App) -> int:
    with cli.make_context("treering", args, obj=app) as ctx:
        return int(cli.invoke(ctx) or Exit.DONE)


def guarded(work: Callable[[], int], app: App) -> int:
    """Run `work`; whatever ends it early becomes one message on stderr and an exit code."""
    try:
        code = work()
        _flush()
        return code
    except click.exceptions.Exit as exit:
        return _flushed(exit.exit_code, app)
    except click.ClickException as error:
        error.show()
        return Exit.USAGE
    except (KeyboardInterrupt, click.Abort):
        _silence_stdout()
        click.echo("interrupted", err=True)
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader of our pipe has seen enough (`| head`): that is no error.
        _silence_stdout()
        return Exit.DONE
    except Exception as error:
        _silence_stdout()
        _say(_message(error), app)
        return exit_of(error)


def _flushed(code: int, app: App) -> int:
    def flush() -> int:
        _flush()
        return code

    return guarded(flush, app)


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _silence_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's own flush at the end cannot fail a second time."""
    if sys.stdout is None:
        return
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)


def _message(error: Exception) -> str:
    from treering.storage.advice import explained
    from treering.storage.errors import TreeringError
    from treering.storage.shortage import ADVICE, is_shortage

    if isinstance(error, TreeringError):
        return str(error)
    if is_shortage(error):
        return f"memory ran out: {ADVICE}"
    if isinstance(error, OSError):
        place = "" if error.filename else "output: " if error.errno == errno.ENOSPC else ""
        return f"{place}{explained(error)}"
    return f"unexpected {type(error).__name__}: {error}; --debug shows where"


def _say(message: str, app: App) -> None:
    from treering.query.cells import visible

    if app.debug:
        import traceback

        traceback.print_exc()
    lines = [visible(line) for line in message.split("\n")]
    click.echo("\n".join([f"error: {lines[0]}", *lines[1:]]), err=True)
