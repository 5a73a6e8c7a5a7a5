"""The facts on a session as one page that needs nothing else; `page_of` writes it.

Each table has so many rows at most, and says how many are left out, so that a session of any length gives a page that
opens.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from paddock.plan.units import size_text
from paddock.report.facts import Call, Facts, ModuleFacts
from paddock.report.for_author import CONTAINS
from paddock.report.html import Markup, page, tag
from paddock.report.timeline import timeline

_MOST_ROWS: Final = 200  # of one table
_NOT_RECORDED: Final = "not recorded"
_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c2024; --quiet: #60666d; --paper: #fff; --line: #d8dce0; --band: #e8ecf0;
  --blue: #2f6fb0; --red: #c0392b; --amber: #a86a00; --green: #23803c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ea; --quiet: #9aa2aa; --paper: #16191c; --line: #343a40;
  --band: #2a3036; --blue: #6aa9e8; --red: #ef7b6c; --amber: #e0a84a; --green: #67c587; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 75rem; background: var(--paper); color: var(--ink);
  font: 16px/1.45 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0 0 .5rem; } h2 { font-size: 1.25rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
.private { border: 2px solid var(--red); border-radius: .4rem; padding: .5rem .75rem; margin: .75rem 0; }
.notes { border-left: 4px solid var(--amber); padding-left: .75rem; }
.quiet { color: var(--quiet); } code { font-family: ui-monospace, monospace; font-size: .9em; }
.table { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .75rem .3rem 0; border-bottom: 1px solid var(--line);
  min-width: 4rem; }
th[scope=row] { width: 12rem; } .rows th { overflow-wrap: normal; }
.rows td { overflow-wrap: break-word; } .rows code { overflow-wrap: anywhere; }
th { font-weight: 600; color: var(--quiet); } .module { border-top: 2px solid var(--line); margin-top: 2rem; }
.used { color: var(--green); } .unused { color: var(--amber); } .bad { color: var(--red); }
.row { display: grid; grid-template-columns: 12rem 1fr; gap: .75rem; align-items: center; margin: .2rem 0; }
svg { width: 100%; display: block; background: var(--paper); border-bottom: 1px solid var(--line); }
.turn, .call { fill: var(--blue); } .life { fill: var(--band); } .died { fill: var(--red); fill-opacity: .25; }
.failed, .refused { fill: var(--red); } .open { fill: var(--amber); }
.label { display: none; color: var(--quiet); }
@media (max-width: 40rem) { th[scope=row] { width: 7rem; } .row { grid-template-columns: 1fr; gap: 0; }
  body { padding: .75rem; } .rows tr, .rows td { display: block; } .rows th { display: none; }
  .label { display: inline; }
  .rows td { border: 0; padding: 0; } .rows tr { border-bottom: 1px solid var(--line); padding: .3rem 0; } }
"""


def page_of(facts: Facts, *, is_for_author: bool = False) -> str:
    """Return the page; one for a module's author lists first what it contains."""
    title = f"What the modules of session {facts.session[:8]} did"
    if is_for_author:
        title = f"What {facts.modules[0].name} did"
    parts = [tag("h1", title), _private(is_for_author), _session(facts)]
    if facts.notes:
        parts.append(tag("div", *(tag("p", note) for note in facts.notes), class_="notes"))
    parts.append(timeline(facts))
    parts += [] if is_for_author else [_overview(facts), _turns(facts)]
    parts += [_module(module, facts.calls_of(module)) for module in facts.modules]
    return page(title, _STYLE, tag("main", *parts))


def _private(is_for_author: bool) -> Markup:
    if not is_for_author:
        text = "It has prompts, paths, hosts and names of secrets. Do not pass it on. For a module's author there is "
        option = tag("code", "--for-author MODULE")
        return tag("p", tag("strong", "This page is private. "), text, option, ".", class_="private")
    first = tag("p", tag("strong", "This page is private to you and the module's author. "), "It contains:")
    rest = tag("p", "It has no prompts, no answers, and nothing of other modules. Read it before you pass it on.")
    return tag("div", first, tag("ul", *(tag("li", one) for one in CONTAINS)), rest, class_="private")


def _session(facts: Facts) -> Markup:
    rows = [
        ("session", facts.session),
        ("state", facts.state),
        ("plan", facts.plan or "none: a call, or a plan without a file"),
        ("working directory", facts.working_dir),
        ("began", _time(facts.began)),
        ("ended", "not yet" if facts.ended is None else _time(facts.ended)),
        *([("accepted by", facts.accepted)] if facts.accepted else []),
    ]
    return _facts(rows)


def _overview(facts: Facts) -> Markup:
    rows = [
        (
            module.name,
            module.kind,
            module.level,
            "" if module.calls is None else module.calls,
            _bad(len(module.refusals)),
            _bad("; ".join(life.message for life in module.lives if not life.was_ordinary)),
        )
        for module in facts.modules
    ]
    head = ("module", "kind", "isolation", "calls", "refusals", "deaths")
    return tag("section", tag("h2", "Modules"), _table(head, rows))


def _turns(facts: Facts) -> Markup:
    rows = [
        (number, _time(turn.began), _seconds(turn.began, turn.ended), turn.outcome, turn.prompt)
        for number, turn in enumerate(facts.turns, 1)
    ]
    return tag("section", tag("h2", "Turns"), _table(("turn", "began", "took", "outcome", "prompt"), rows))


# -- one module ----------------------------------------------------------------------------


def _module(module: ModuleFacts, calls: Sequence[Call]) -> Markup:
    parts = [
        tag("h2", module.name),
        _facts(
            [
                ("kind", module.kind),
                ("place in the plan", module.place),
                ("source", module.source),
                ("pin", module.pin or "none"),
            ]
        ),
        *([_shared(module)] if module.shared_with else []),
        tag("h3", "Granted, and used"),
        _grants(module),
        tag("h3", "Refused"),
        _refusals(module),
        tag("h3", "Limits, and peaks"),
        _limits(module),
        tag("h3", "Processes"),
        _lives(module),
    ]
    if calls:
        parts += [tag("h3", "Calls of its tools"), _calls(calls)]
    if module.connections:
        parts += [tag("h3", "Connections"), _connections(module)]
    return tag("section", *parts, class_="module")


def _grants(module: ModuleFacts) -> Markup:
    rows = [
        (
            one.family,
            tag("code", one.grant),
            tag("span", one.state, class_={"used": "used", "not seen used": "unused"}.get(one.state, "quiet")),
            one.seen_by,
        )
        for one in module.grants
    ]
    parts = [_table(("family", "grant", "use", "says"), rows, "Nothing was granted.")]
    if module.unused:
        parts.append(tag("p", "Granted, and not seen used: ", tag("code", module.unused)))
    if module.unseen:
        parts.append(tag("p", f"Too little is known of the use of: {', '.join(module.unseen)}.", class_="quiet"))
    if module.programs:
        parts.append(tag("p", f"Programs that it says it started: {', '.join(module.programs)}."))
    return tag("div", *parts)


def _shared(module: ModuleFacts) -> Markup:
    places = ", ".join(module.shared_with)
    said = f"What follows is shared with the module of this name at {places}: which grants served it is not known."
    return tag("p", said, class_="quiet")


def _refusals(module: ModuleFacts) -> Markup:
    rows = [
        (
            tag("span", f"{one.operation} ", tag("code", one.target), class_="bad"),
            one.reason,
            one.times,
            _time(one.at),
            tag("code", one.grant) if one.grant else "no grant allows it",
            one.seen_by,
        )
        for one in module.refusals
    ]
    head = ("may not", "why", "times", "first", "the line that would allow it", "says")
    left_out = module.refusals_left_out
    more = tag("p", f"{left_out} more are not recorded one by one.") if left_out else ""
    return tag("div", _table(head, rows, "Nothing, as far as is recorded."), more)


def _limits(module: ModuleFacts) -> Markup:
    peaks: dict[str, object] = {}
    if module.peak_memory_bytes is not None:
        peaks["memory_max"] = f"{size_text(module.peak_memory_bytes)} at most"
    for life in module.lives:
        if life.limit:
            peaks[life.limit.partition(",")[0]] = _bad(f"ended for it: {life.limit}")
    rows = [(name, value, peaks.get(name, "")) for name, value in module.limits.items()]
    cpu = _NOT_RECORDED if module.cpu_seconds is None else f"{module.cpu_seconds:.2f} s"
    restarts = _NOT_RECORDED if module.restarts is None else module.restarts
    said = tag("p", f"Processor time: {cpu}. Restarts: {restarts}.")
    return tag("div", _table(("limit", "set to", "peak"), rows), said)


def _lives(module: ModuleFacts) -> Markup:
    rows = [
        (_time(life.began), _seconds(life.began, life.ended), life.message if life.was_ordinary else _bad(life.message))
        for life in module.lives
    ]
    return _table(("began", "lived", "end"), rows)


def _calls(calls: Sequence[Call]) -> Markup:
    by_tool: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        by_tool[call.tool].append(call)
    rows = []
    for tool, made in by_tool.items():
        took = [(call.ended - call.began).total_seconds() for call in made if call.ended is not None]
        failed = sum(call.outcome != "ended" for call in made)
        rows.append((tool, len(made), _bad(failed), f"{sum(took):.3f} s", f"{max(took, default=0.0):.3f} s"))
    return _table(("tool", "calls", "failed or unknown", "all together", "longest"), rows)


def _connections(module: ModuleFacts) -> Markup:
    rows = [
        (one.destination, one.rule, one.outcome, one.times, size_text(one.up), size_text(one.down))
        for one in module.connections
    ]
    return _table(("to", "by the grant", "outcome", "times", "sent", "received"), rows)


def _facts(rows: Iterable[tuple[str, object]]) -> Markup:
    """Return a table whose first column names each row."""
    lines = (tag("tr", tag("th", name, scope="row"), tag("td", value)) for name, value in rows)
    return tag("div", tag("table", *lines), class_="table")


def _table(head: Sequence[str], rows: Sequence[Iterable[object]], nothing: str = _NOT_RECORDED) -> Markup:
    """Return a table, of which the latest rows are shown, or what is said where there are none."""
    if not rows:
        return tag("p", nothing)
    lines = [tag("tr", *(tag("th", one, scope="col") for one in head))]
    if len(rows) > _MOST_ROWS:
        left_out = f"{len(rows) - _MOST_ROWS} earlier rows are left out"
        lines.append(tag("tr", tag("td", left_out, colspan=len(head))))
    for row in rows[-_MOST_ROWS:]:  # a narrow screen shows the names beside the cells
        labelled = zip(head, row, strict=True)
        lines.append(tag("tr", *(tag("td", tag("span", f"{name}: ", class_="label"), one) for name, one in labelled)))
    return tag("div", tag("table", *lines, class_="rows"), class_="table")


def _bad(content: object) -> object:
    """Return what shows that something went wrong, unless that is 0 or an empty text."""
    return tag("span", content, class_="bad") if content else content


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _seconds(began: datetime, ended: datetime | None) -> str:
    return "not ended" if ended is None else f"{(ended - began).total_seconds():.3f} s"
