"""Decide where a module's code comes from: the first layer that has an answer wins.

The layers, in order: the environment variable `AMPLIFIER_MODULE_<ID>` of the host's user, the application's own
resolver, the user's workspace and settings, the source that the plan names, the reference modules by bare id, installed
packages. A layer whose answer turns out wrong ends the search: going on would run other code than the user asked for.
Every failure is one `UnresolvedError` that lists each layer tried and its answer.

Choosing and providing are separate steps, so that a choice can be judged before anything of it is fetched: choosing
reads only names and settings, except in an application's resolver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from paddock_sources.application import ApplicationResolver
from paddock_sources.builtin import BuiltinSource, shipped
from paddock_sources.errors import LayerAnswer, SourceError, UnresolvedError
from paddock_sources.file import FileSource
from paddock_sources.module_id import checked_module_id, environment_variable_of_id
from paddock_sources.resolution import NoAnswer, Resolution
from paddock_sources.settings import SourceSettings
from paddock_sources.similar_names import near
from paddock_sources.uri import BuiltinUri, FolderUri, SourceUri, parse_source
from paddock_sources.workspace import find_in_workspace

PLAN_LAYER: Final = "source of the plan entry"

Provide = Callable[[SourceUri, str], Resolution]
"""Returns the code of the module with an id from a source, ready to run; raises a `SourceError` where it cannot."""

FindInstalled = Callable[[str], str | None]
"""Returns the name of the installed distribution that a module with an id is in."""


_Ask = Callable[[], SourceUri | NoAnswer]


@dataclass(frozen=True, slots=True)
class ChosenSource:
    """The source that a layer named for a module; a folder in it is absolute. Nothing of it was fetched or read.

    `attempts` are the layers that were asked before and had no answer, `source` is the plan's source.
    """

    module_id: str
    source: str | None
    layer: str
    uri: SourceUri
    attempts: tuple[LayerAnswer, ...] = ()


class Resolver:
    """Resolves module ids with the variables in `environ`; a plan's relative folders start at `base`.

    Without `base` they start at the current folder, as those of variables do. `application`, `settings` and `installed`
    packages are layers only if they are given. `provide` gets the chosen source; by default only code on this machine
    can be had.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        base: Path | None = None,
        builtin: BuiltinSource | None = None,
        application: ApplicationResolver | None = None,
        settings: SourceSettings | None = None,
        installed: FindInstalled | None = None,
        provide: Provide | None = None,
    ) -> None:
        self._environ = environ
        self._base = base
        self._builtin = builtin if builtin is not None else shipped()
        self._application = application
        self._settings = settings
        self._installed = installed
        self._provide = provide if provide is not None else self._find_here

    def resolve(self, module_id: str, source: object | None = None) -> Resolution:
        """Return where the code of `module_id` is, given the source that its plan entry names, if any.

        Raises:
            ModuleIdError: `module_id` cannot be an id.
            UnresolvedError: no layer had an answer, or the first that had one was wrong.
        """
        return self.provide(self.choose(module_id, source))

    def choose(self, module_id: str, source: object | None = None) -> ChosenSource:
        """Return the source that the code of `module_id` must come from, bound to the folder that it leads to now.

        Raises:
            ModuleIdError: `module_id` cannot be an id.
            UnresolvedError: no layer had an answer, or the first answer is no source.
        """
        module_id = checked_module_id(module_id)
        written = None if source is None else str(source)
        attempts: list[LayerAnswer] = []
        for layer, ask in self._layers(module_id, source):
            try:
                answer = ask()
            except SourceError as error:
                raise _wrong(module_id, written, attempts, LayerAnswer(layer, "", _told(error)), error) from error
            if isinstance(answer, SourceUri):
                return ChosenSource(module_id, written, layer, answer.held(), tuple(attempts))
            attempts.append(LayerAnswer(layer, "", answer.reason, answer.is_silent))
        known = [*self._builtin.list(), *(self._settings.modules if self._settings is not None else ())]
        hints = [f"did you mean `{one}`?" for one in near(module_id, known)]
        hints.append(f"name its source: `- module: {module_id}` with `source: ./folder`")
        raise UnresolvedError(module_id, written, attempts, hints=hints)

    def provide(self, chosen: ChosenSource) -> Resolution:
        """Return the code of the chosen source.

        Raises:
            UnresolvedError: it cannot be had.
        """
        try:
            return replace(self._provide(chosen.uri, chosen.module_id), layer=chosen.layer)
        except SourceError as error:
            attempt = LayerAnswer(chosen.layer, chosen.uri.text, _told(error))
            raise _wrong(chosen.module_id, chosen.source, chosen.attempts, attempt, error) from error

    def list(self) -> tuple[str, ...]:
        """Return the ids of the reference modules, sorted."""
        return self._builtin.list()

    def _find_here(self, uri: SourceUri, module_id: str) -> Resolution:
        if isinstance(uri, BuiltinUri):  # under an id of the plan's choosing, as in `module: my-loop`
            return replace(self._builtin.resolve(uri.module_id), module_id=module_id)
        if isinstance(uri, FolderUri):
            return FileSource(uri.folder, place=uri.place).resolve(module_id)
        raise uri.not_here()

    # -- the layers ------------------------------------------------------------------------

    def _layers(self, module_id: str, source: object | None) -> Iterator[tuple[str, _Ask]]:
        """Yield each layer, and the function that asks it."""
        variable = environment_variable_of_id(module_id)
        yield (f"environment variable {variable}", lambda: self._of_variable(variable))
        application = self._application
        if application is not None:
            yield ("the application's resolver", lambda: application.find(module_id, source))
        settings = self._settings
        if settings is not None:
            yield ("workspace", lambda: _of_workspace(settings, module_id))
            said = f"`{module_id}` is not in [modules] of {settings.origin}"
            yield ("settings", lambda: settings.modules.get(module_id) or NoAnswer(said, True))
        yield (PLAN_LAYER, lambda: self._of_plan(source))
        yield ("builtin modules", lambda: self._of_builtin(module_id))
        installed = self._installed
        if installed is not None:
            yield ("installed packages", lambda: _of_installed(installed, module_id))

    def _of_variable(self, variable: str) -> SourceUri | NoAnswer:
        written = self._environ.get(variable)
        # Relative to the current folder, like any path in a shell.
        return parse_source(written).anchored(Path.cwd()) if written else NoAnswer("not set", True)

    def _of_plan(self, source: object | None) -> SourceUri | NoAnswer:
        if source is None:
            return NoAnswer("none given", True)
        return parse_source(source).anchored(self._base or Path.cwd())

    def _of_builtin(self, module_id: str) -> SourceUri | NoAnswer:
        if self._builtin.has(module_id):
            return parse_source(f"builtin:{module_id}")
        shipped = self._builtin.list()
        # A near name is a hint, and says more than all of them.
        return NoAnswer(
            f"no module of that id (there are: {', '.join(shipped) or 'none'})", bool(near(module_id, shipped))
        )


def _of_workspace(settings: SourceSettings, module_id: str) -> SourceUri | NoAnswer:
    if settings.workspace is None:
        return NoAnswer(f"no folder is named (`workspace` in {settings.origin})", True)
    return find_in_workspace(settings.workspace, module_id)


def _of_installed(find: FindInstalled, module_id: str) -> SourceUri | NoAnswer:
    name = find(module_id)
    return parse_source(name) if name is not None else NoAnswer(f"none of them has a module `{module_id}`", True)


def _told(error: SourceError) -> str:
    return "; ".join([error.summary, *error.detail])


def _wrong(
    module_id: str,
    source: str | None,
    attempts: list[LayerAnswer] | tuple[LayerAnswer, ...],
    last: LayerAnswer,
    error: SourceError,
) -> UnresolvedError:
    return UnresolvedError(module_id, source, (*attempts, last), hints=error.hints)
