"""Show a page of the manual, or the help of a command.

The pages are the files of `host/docs`, `sdk/docs` and `sources/docs` in a checkout; an installed wheel has them in a
folder beside this package. On a terminal a page is laid out; elsewhere it is the file as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from paddock.cli.command_group import LazyCommand, example

_HOST: Final = Path(__file__).resolve().parents[1]
_NAMED: Final = 3  # pages for words that are none of a page
_WIDEST: Final = 100  # columns of text that are easy to read


def manual_pages() -> dict[str, Path]:
    """Return the pages of the manual by their topics."""
    installed, checkout = _HOST / "manual", _HOST.parents[1]
    folders = [installed] if installed.is_dir() else [checkout / part / "docs" for part in ("host", "sdk", "sources")]
    pages = {page.stem: page for folder in folders for page in sorted(folder.glob("*.md"))}
    return pages if installed.is_dir() else {**pages, "security": checkout / "SECURITY.md"}


@click.command("help", epilog=example("paddock help permissions"))
@click.argument("topic", nargs=-1)
@click.pass_context
def help_(context: click.Context, topic: tuple[str, ...]) -> int:
    """Show a page of the manual, or the help of a command.

    Without TOPIC, `help` lists the pages.
    """
    pages = manual_pages()
    if not topic:
        click.echo(_contents(pages))
    elif (page := pages.get(" ".join(topic))) is not None:
        _show(page.read_text(encoding="utf-8"))
    else:
        click.echo(_command_help(context.find_root(), topic, pages))
    return 0


def _contents(pages: dict[str, Path]) -> str:
    formatter = click.HelpFormatter()
    formatter.write_usage("paddock help", "[TOPIC]...")
    formatter.write_paragraph()
    with formatter.section("Topics"):
        titles = {topic: page.read_text(encoding="utf-8").partition("\n")[0] for topic, page in pages.items()}
        formatter.write_dl([(topic, title.lstrip("# ").strip()) for topic, title in sorted(titles.items())])
    return formatter.getvalue().rstrip("\n")


def _command_help(root: click.Context, words: Sequence[str], pages: dict[str, Path]) -> str:
    context = root
    for word in words:
        group = context.command
        command = group.get_command(context, word) if isinstance(group, click.Group) else None
        if command is None:
            said = f"no page and no command is called `{' '.join(words)}`"
            commands = group.list_commands(context) if isinstance(group, click.Group) else []
            before = [] if context is root else context.command_path.split()[1:]
            known = [" ".join((*before, one)) for one in commands]
            from paddock_sources.similar_names import meant  # only here, as a page that is found needs none of it

            # The page that has the words most often comes first.
            texts = {topic: page.read_text(encoding="utf-8").lower() for topic, page in pages.items()}
            found = {topic: text.count(" ".join(words).lower()) for topic, text in texts.items()}
            having = sorted(filter(found.__getitem__, found), key=lambda topic: -found[topic])
            about = [f"`paddock help {topic}`" for topic in having[:_NAMED]]
            others = f"it is in {', '.join(about)}" if about else f"pages are: {', '.join(sorted(pages))}"
            instead = meant(" ".join(words), [*pages, *known], others)
            raise click.UsageError(f"{said}; {instead}", root)
        loaded = command.load() if isinstance(command, LazyCommand) else command
        context = click.Context(loaded, context, word)
    return context.get_help()


def _show(text: str) -> None:
    if not sys.stdout.isatty():
        click.echo(text, nl=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    console.print(Markdown(text, hyperlinks=False), width=min(console.width, _WIDEST))
