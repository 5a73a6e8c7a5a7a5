"""The inputs of a chat other than prompts: commands that begin with a slash.

Each is one entry of a table: its name, its arguments, its effect. A line is a command if its first word is a slash and
letters; a path such as `/etc/hosts` is none. Text of modules is escaped and masked by the screen.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any, Final, get_args

import anyio.to_thread
import click

from paddock.cli.chat.conversation import ChatConversation
from paddock.cli.plan_options import read_grants
from paddock.cli.session_on_screen import row_of
from paddock.cli.terminal.denial_notes import tell_denials
from paddock.cli.terminal.render import Screen
from paddock.cli.terminal.request_parts import tell_request
from paddock.cli.why_command import run_why
from paddock.errors import PaddockError, render, statement_of
from paddock.isolation.denials.explain import Family
from paddock.plan.model import ModuleEntry
from paddock.plan.permissions import FAMILIES, PRESETS, Permissions, by_preset, grants_of, united
from paddock.session.instructing import preferred_provider
from paddock_sources.similar_names import near

_COMMAND: Final = re.compile(r"/([A-Za-z]*)(?:\s+(.*))?", re.DOTALL)
_PARAGRAPHS: Final = re.compile(r"\n\s*\n")
_MAX_SUMMARY: Final = 300  # characters of a tool's description
_MAX_MODELS: Final = 50  # that are listed
_MORE: Final = " …"
_FAMILY_NAMES: Final = get_args(Family)


class Next(Enum):
    """The next step of a chat after a command."""

    GO_ON = auto()
    LEAVE = auto()
    RESTART = auto()


@dataclass(frozen=True, slots=True)
class _Command:
    takes: str
    does: str
    run: Callable[[Sequence[str]], Awaitable[Next | None]]


class SlashCommands:
    """The commands of one chat.

    `regrant` sets a module's grants, and whether its home is to stay; `set_model` sets the model that a provider asks.
    Both return whether the session starts again. Without a terminal there is no `set_model`.
    """

    def __init__(
        self,
        conversation: ChatConversation,
        screen: Screen,
        working_dir: Path | None,
        regrant: Callable[[ModuleEntry, Permissions, bool], Awaitable[bool]],
        set_model: Callable[[ModuleEntry, str], Awaitable[bool]] | None = None,
    ) -> None:
        self._conversation = conversation
        self._session = conversation.session
        self._screen = screen
        self._working_dir = working_dir
        self._regrant = regrant
        self._set_model = set_model
        self._commands: Mapping[str, _Command] = {
            "tools": _Command("", "list the tools that the model can call", self._tools),
            "modules": _Command("", "the modules and their state", self._modules),
            "why": _Command(
                "[MODULE KIND TARGET]",
                "whether a module may do something, and by which rule; without arguments, what was refused",
                self._why,
            ),
            "grant": _Command(
                "MODULE PRESET|FAMILY=VALUE",
                "grant a module more: write it to the plan, and continue the conversation",
                self._grant,
            ),
            "revoke": _Command(
                "MODULE [FAMILY|FAMILY=VALUE]",
                "take back a grant: write that to the plan, and continue; without one, end the module at once",
                self._revoke,
            ),
            "lift": _Command("MODULE", "let a module that ended too often be started again", self._lift),
            "model": _Command(
                "[NAME [MODULE]]",
                "ask another model in this chat; without a name, the models to choose from",
                self._model,
            ),
            "context": _Command("", "what goes to the model, in tokens by part", self._context),
            "cost": _Command("", "the tokens that this chat used, and their cost", self._cost),
            "clear": _Command("", "clear the conversation", self._clear),
            "help": _Command("", "list the commands and keys", self._help),
            "exit": _Command("", "end the chat; Ctrl-D does the same", self._exit),
        }

    async def run(self, line: str) -> Next | None:
        """Run a command, and return what the chat does next; None if the line is no command."""
        match = _COMMAND.fullmatch(line.strip())
        if match is None:
            return None
        name, rest = match[1].lower(), match[2] or ""
        command = self._commands.get(name)
        if command is None:
            close = near(name, self._commands)
            others = f"did you mean /{close[0]}?" if close else "/help lists them"
            self._screen.warning(f"there is no command /{name}; {others}")
            return Next.GO_ON
        try:
            words = shlex.split(rest)
        except ValueError:
            words = rest.split()
        try:
            return await command.run(words) or Next.GO_ON
        except click.UsageError as error:
            self._screen.warning(f"/{name} takes {command.takes or 'no arguments'}: {error.format_message()}")
        except PaddockError as error:
            self._screen.text(render(error))
        return Next.GO_ON

    def words(self, before: str) -> Iterable[str]:
        """Return the words that can come next in a line that was typed up to here."""
        words = before.split(" ")
        if len(words) == 1:
            return [f"/{name}" for name in self._commands]
        modules = [module.module for module in self._session.modules]
        match words[0], len(words):
            case (("/why" | "/grant" | "/revoke" | "/lift"), 2):
                return modules
            case "/why", 3:
                return _FAMILY_NAMES
            case "/why", 4:
                tools = self._session.coordinator.get("tools") or {}
                return [f"tools:{name}" for name in tools] if words[2] == "call" else []
            case "/revoke", 3:
                return FAMILIES
            case "/grant", 3:
                return [*PRESETS, *(f"{family}=" for family in FAMILIES)]
        return []

    async def _tools(self, words: Sequence[str]) -> None:
        tools: Mapping[str, Any] = self._session.coordinator.get("tools") or {}
        if not tools:
            self._screen.note("there are no tools")
        self._screen.labelled(
            [(f"  {name}  ", self._summary(getattr(tool, "description", ""))) for name, tool in sorted(tools.items())]
        )

    def _summary(self, text: object) -> str:
        """Return the first paragraph of a description as one line; an ellipsis shows that there is more."""
        masked = self._screen.mask(str(text)).strip()  # masked first: a secret may have several lines
        first, *rest = _PARAGRAPHS.split(masked, maxsplit=1)
        begun = first[: 4 * _MAX_SUMMARY]  # to fold a description of 256 KiB would hold the session's loop up
        shown = textwrap.shorten(begun, _MAX_SUMMARY, placeholder=_MORE)
        return shown if shown.endswith(_MORE) or not (rest or len(begun) < len(first)) else shown + _MORE

    async def _modules(self, words: Sequence[str]) -> None:
        self._screen.listing([row_of(module) for module in self._session.modules])

    async def _why(self, words: Sequence[str]) -> None:
        if not words:
            denials = [denial for module in self._session.modules for denial in module.denials]
            if not denials:
                self._screen.note(
                    "Paddock refused nothing in this session; of what a tool refuses by itself it does not learn: "
                    "`/why MODULE read PATH` says what a module may do"
                )
            left_out = sum(module.denials_left_out for module in self._session.modules)
            tell_denials(self._screen, denials, left_out, plan=self._session.plan)
            return
        if len(words) != 3 or words[1] not in _FAMILY_NAMES:
            raise click.UsageError(f"KIND is one of {', '.join(_FAMILY_NAMES)}")
        module, family, target = words
        await anyio.to_thread.run_sync(
            lambda: run_why(
                module,
                family,  # type: ignore[arg-type]
                target,
                session=self._session.session_id,
                plan=None,
                working_dir=self._working_dir,
                as_json=False,
                screen=self._screen,
            )
        )

    async def _grant(self, words: Sequence[str]) -> Next | None:
        if len(words) < 2:
            raise click.UsageError("name a module, and what to grant it")
        return await self._change(self._entry(words[0]), more_permissions, words[1:])

    async def _revoke(self, words: Sequence[str]) -> Next | None:
        if not words:
            raise click.UsageError("name a module, and what to take back")
        entry = self._entry(words[0])
        if len(words) == 1:
            name = entry.instance_id or entry.module
            self._session.revoke(name)
            self._screen.note(f"{name} is ended, and runs no more in this session; the plan is not changed")
            return None
        return await self._change(entry, fewer_permissions, words[1:])

    async def _change(
        self, entry: ModuleEntry, changed: Callable[[Permissions, Sequence[str]], Permissions], words: Sequence[str]
    ) -> Next | None:
        status = next(one for one in self._session.modules if one.place == entry.path)
        # Grants of an acceptance count where the entry states none: with grants, it has to state this too.
        keeps_home = status.keeps_home and entry.state != "keep"
        wanted = changed(status.granted, words)
        if grants_of(wanted) == grants_of(status.granted) and not keeps_home:
            self._screen.note(f"{_name_of(entry)} has these grants already")
            return None
        permissions = by_preset(wanted, (entry.permissions.preset, *words))
        return Next.RESTART if await self._regrant(entry, permissions, keeps_home) else None

    async def _lift(self, words: Sequence[str]) -> Next | None:
        if len(words) != 1:
            raise click.UsageError("name a module")
        entry = self._entry(words[0])
        self._session.lift_quarantine(entry.instance_id or entry.module)
        status = next(one for one in self._session.modules if one.place == entry.path)
        if status.is_mounted:
            self._screen.note(f"{words[0]} is started again when it is next called")
            return None
        self._screen.note(f"the session starts again with {words[0]}")
        return Next.RESTART

    def _entry(self, name: str) -> ModuleEntry:
        """Return the entry of the module that goes by `name`: an instance's, or else an id that one entry has.

        Raises:
            click.UsageError: there is none, or several have the id.
        """
        entries = {_name_of(entry): entry for entry in self._session.plan.entries()}
        of_id = [entry for entry in entries.values() if entry.module == name]
        if name in entries or len(of_id) == 1:
            return entries[name] if name in entries else of_id[0]
        if of_id:
            names = ", ".join(str(entry.instance_id) for entry in of_id)
            raise click.UsageError(f"the plan has `{name}` several times; name one of them: {names}")
        close = near(name, entries)
        raise click.UsageError(
            f"there is no module `{name}` in the plan; "
            + (f"did you mean `{close[0]}`?" if close else f"its modules are {', '.join(entries)}")
        )

    async def _model(self, words: Sequence[str]) -> Next | None:
        entries = [self._entry(words[1])] if len(words) == 2 else list(self._session.plan.providers)
        entries = [entry for entry in entries if entry.kind == "provider"]
        known = {_name_of(entry): await self._models(entry) for entry in entries}
        told = "; ".join(f"{name} has {', '.join(models[:_MAX_MODELS])}" for name, models in known.items() if models)
        told = told or "no provider lists its models"
        if not words:
            model = getattr(preferred_provider(self._session.coordinator), "default_model", "")
            self._screen.note(f"{model} answers; {told}; `/model NAME` asks another one")
            return None
        meant = [entry for entry in entries if words[0] in known[_name_of(entry)]] or entries
        if len(words) > 2 or len(meant) != 1:
            names = ", ".join(map(_name_of, self._session.plan.providers))
            raise click.UsageError(f"name a model that one provider has, or with it one of {names}; {told}")
        if self._set_model is None:
            raise click.UsageError(f"no terminal; write `default_model` in `config` of {meant[0].path} of the plan")
        if not await self._set_model(meant[0], words[0]):
            return None
        if (models := known[_name_of(meant[0])]) and words[0] not in models:
            self._screen.warning(f"{_name_of(meant[0])} does not list the model {words[0]}; {told}")
        return Next.RESTART

    async def _models(self, entry: ModuleEntry) -> list[str]:
        """Return the models that the provider of an entry lists; of several, it is the one of the entry's name."""
        mounted = self._session.coordinator.get("providers") or {}
        name = entry.instance_id or entry.module.removeprefix("provider-")
        provider: Any = mounted.get(name) if len(mounted) > 1 else preferred_provider(self._session.coordinator)
        try:
            return [model.id for model in await provider.list_models()]
        except Exception as error:  # modules raise any class
            self._screen.warning(f"the models of {_name_of(entry)} cannot be had: {statement_of(error)}")
            return []

    async def _context(self, words: Sequence[str]) -> None:
        try:
            await tell_request(self._session, self._screen)
        except Exception as error:  # modules raise any class
            self._screen.warning(f"what goes to the model cannot be had: {statement_of(error)}")

    async def _cost(self, words: Sequence[str]) -> None:
        for line in await self._conversation.spent():
            self._screen.note(line)

    async def _clear(self, words: Sequence[str]) -> None:
        await self._session.coordinator.get("context").clear()
        self._screen.note("the conversation is cleared")

    async def _help(self, words: Sequence[str]) -> None:
        self._screen.labelled(
            [(f"  /{name} {one.takes}".rstrip() + "  ", one.does) for name, one in self._commands.items()]
        )
        self._screen.note(
            "Enter sends the line. Alt-Enter or Ctrl-J adds a line. Tab completes commands, and paths after @. "
            "Ctrl-C stops a turn: at once, or after the running tool call, for which a second Ctrl-C does not wait. "
            "Ctrl-D in an empty line, or Ctrl-C twice, ends the chat; during a turn, Ctrl-D ends it after the turn."
        )

    async def _exit(self, words: Sequence[str]) -> Next:
        return Next.LEAVE


def _name_of(entry: ModuleEntry) -> str:
    return entry.instance_id or entry.module


def fewer_permissions(granted: Permissions, words: Sequence[str]) -> Permissions:
    """Return `granted` without the arguments of `/revoke`: whole families, or families and their values.

    Raises:
        click.UsageError: it is no family, or was not granted.
    """
    changed: dict[str, list[Any]] = {}
    for word in words:
        family, equals, value = word.partition("=")
        if family not in FAMILIES:
            raise click.UsageError(f"`{word}` is neither a family ({', '.join(FAMILIES)}) nor FAMILY=VALUE")
        left = changed.get(family, list(getattr(granted, family)))
        kept = [one for one in left if equals and getattr(one, "name", one) != value]
        if kept == left:
            raise click.UsageError(f"`{word}` is not granted")
        changed[family] = kept
    return granted.model_copy(update={family: tuple(kept) for family, kept in changed.items()})


def more_permissions(granted: Permissions, words: Sequence[str]) -> Permissions:
    """Return `granted` with the arguments of `/grant` added: a preset's name, or families and their values.

    Raises:
        click.UsageError: it is neither.
    """
    if len(words) == 1 and words[0] in PRESETS:
        return united((granted, Permissions.parse(words[0])))
    families: dict[str, list[str]] = {}
    for word in words:
        family, equals, value = word.partition("=")
        if not (equals and value) or family not in FAMILIES:
            close = near(word.partition("=")[0], [*PRESETS, *FAMILIES], is_vocabulary=True)
            raise click.UsageError(
                f"`{word}` is not a preset ({', '.join(PRESETS)}) and not FAMILY=VALUE"
                + (f"; did you mean `{close[0]}`?" if close else "")
            )
        families.setdefault(family, []).append(value)
    return united((granted, Permissions.parse(read_grants(families))))
