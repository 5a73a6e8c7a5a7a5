"""Act the cases of `kernel_cases` out on whichever contract package is found, and print what came of each as JSON.

Nothing but the contract package and the standard library is imported, and nothing that either has alone.
"""

import asyncio
import json
import logging
from itertools import pairwise

from amplifier_core import (
    AmplifierSession,
    CancellationToken,
    ContextInjection,
    HookRegistry,
    HookResult,
    MockCoordinator,
    ModuleCoordinator,
    events,
)
from amplifier_core._session_exec import run_orchestrator
from amplifier_core._session_init import initialize_session
from amplifier_core.events import ALL_EVENTS
from amplifier_core.session import AmplifierSession as PlainSession
from amplifier_core.validation import MountPlanValidator

CLASSES = {"compiled": AmplifierSession, "plain": PlainSession}
CONFIG = {"session": {"orchestrator": "loop-acted", "context": "context-acted"}}
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def case_of_both(act):
    """Act it out on a session of each kind."""

    async def of_both():
        return {kind: await act(kind) for kind in CLASSES}

    CASES[act.__name__] = of_both
    return act


class Context:
    def __init__(self):
        self.messages = []

    async def add_message(self, message):
        message["metadata"].pop("timestamp", None)
        self.messages.append(message)


class SynchronousContext:
    def __init__(self):
        self.messages = []

    def add_message(self, message):
        self.messages.append(message["content"])


class Orchestrator:
    def __init__(self, act=None):
        self.act = act
        self.given = {}

    async def execute(self, prompt, context, providers, tools, hooks, **more):
        self.given = {"providers": providers, "tools": tools, "more": sorted(more)}
        return "done" if self.act is None else await self.act(more["coordinator"])


class Loader:
    """Loads the two modules of the configuration."""

    def __init__(self, orchestrator):
        self.orchestrator = orchestrator
        self.was_cleaned_up = False

    async def load(self, module_id, config=None, source_hint=None, coordinator=None):
        async def mount(coordinator):
            if module_id == "loop-acted":
                await coordinator.mount("orchestrator", self.orchestrator)
            else:
                await coordinator.mount("context", Context())

        return mount

    def get_on_session_ready_queue(self):
        return []

    def clear_on_session_ready_queue(self):
        pass

    def cleanup(self):
        self.was_cleaned_up = True


def session_of(kind, act=None, **options):
    """Return a session, and the list of what is announced of it."""
    loader = Loader(Orchestrator(act))
    session = CLASSES[kind](CONFIG, **({"loader": loader} if kind == "plain" else {}), session_id="s", **options)
    if kind == "compiled":
        session.coordinator.loader = loader
    heard = []

    def hear(event, data):
        heard.append([event, {key: data[key] for key in sorted(data) if key not in (*LEFT_OUT, *DEFAULTS)}])

    for event in ALL_EVENTS:
        session.coordinator.hooks.register(event, hear)
    return session, heard


LEFT_OUT = ("timestamp", "config", "stats")  # the last two are in events of sessions here alone
DEFAULTS = ("session_id", "parent_id")


async def opened(kind, act=None):
    session, heard = session_of(kind, act)
    await session.initialize()
    if kind == "plain":
        session.coordinator.mount_points["providers"]["acted"] = object()
    return session, heard


async def outcome_of(awaitable):
    try:
        return await awaitable or "nothing"
    except BaseException as error:
        return [type(error).__name__, str(error)]


# A session's life.


@case_of_both
async def a_session_that_was_never_initialised_is_cleaned_up(kind):
    session, heard = session_of(kind)
    await session.cleanup()
    return heard


@case_of_both
async def an_initialised_session_is_cleaned_up_twice(kind):
    session, heard = session_of(kind)
    await session.initialize()
    await session.cleanup()
    await session.cleanup()
    return heard


@case_of_both
async def a_session_runs_two_turns(kind):
    session, heard = await opened(kind)
    answers = [await session.execute("a prompt") for _ in range(2)]
    await session.cleanup()
    return [answers, heard]


@case_of_both
async def a_turn_that_was_asked_to_stop_ends_well(kind):
    async def stop(coordinator):
        coordinator.cancellation.request_graceful()
        return "stopped"

    session, heard = await opened(kind, stop)
    return [await session.execute("a prompt"), heard[-1]]


@case_of_both
async def a_turn_that_was_asked_to_stop_raises(kind):
    async def stop(coordinator):
        coordinator.cancellation.request_immediate()
        raise ValueError("no more")

    session, heard = await opened(kind, stop)
    return [await outcome_of(session.execute("a prompt")), heard[-1]]


@case_of_both
async def a_turn_is_asked_to_stop_and_its_task_cancelled(kind):
    running = asyncio.Event()

    async def stop(coordinator):
        coordinator.cancellation.request_immediate()
        running.set()
        await asyncio.Event().wait()

    session, heard = await opened(kind, stop)
    task = asyncio.create_task(session.execute("a prompt"))
    await running.wait()
    task.cancel("by the application")
    return [await outcome_of(task), [event for event in heard if event[0] == events.CANCEL_COMPLETED]]


@case_of_both
async def an_orchestrator_raises_a_cancellation_of_its_own(kind):
    async def raise_it(coordinator):
        raise asyncio.CancelledError("of its own")

    session, _ = await opened(kind, raise_it)
    return await outcome_of(session.execute("a prompt"))


@case_of_both
async def an_orchestrator_fails(kind):
    async def fail(coordinator):
        raise ValueError("it failed")

    session, _ = await opened(kind, fail)
    return await outcome_of(session.execute("a prompt"))


@case
async def the_plain_session_keeps_a_status():
    async def fail(coordinator):
        raise ValueError("it failed")

    async def cancelled(coordinator):
        raise asyncio.CancelledError("of its own")

    found = []
    for act in (None, fail, cancelled):
        session, _ = await opened("plain", act)
        await outcome_of(session.execute("a prompt"))
        await session.cleanup()
        status = session.status.model_dump(exclude={"started_at", "cost_usd"}, exclude_defaults=True)
        found.append([session.status.status, status])
    return found


@case
async def the_plain_session_is_rearranged():
    session, _ = session_of("plain")
    coordinator, loader = MockCoordinator(), Loader(Orchestrator())
    session.coordinator, session.loader = coordinator, loader
    session.session_id, session.parent_id, session.config = "another", "parent", CONFIG
    found = [session.coordinator is coordinator, session.session_id, session.parent_id]
    await session.initialize()
    return [*found, coordinator.loader is loader, coordinator.get("orchestrator") is loader.orchestrator]


@case
async def the_plain_session_cleans_its_loader_up():
    session, _ = session_of("plain")
    await session.cleanup()
    return session.loader.was_cleaned_up


@case
async def a_session_has_no_loader_of_its_own_before_it_is_initialised():
    return [session.coordinator.loader is None for session in (AmplifierSession(CONFIG), PlainSession(CONFIG))]


@case_of_both
async def what_ends_a_cleanup_is_raised_when_the_rest_ran(kind):
    session, _ = await opened(kind)
    ran = []

    def cancel():
        ran.append("the latest")
        raise asyncio.CancelledError("by a cleanup")

    session.coordinator.register_cleanup(lambda: ran.append("the first"))
    session.coordinator.register_cleanup(cancel)
    return [await outcome_of(session.cleanup()), ran]


@case
async def a_coordinators_cleanup_raises_when_the_rest_ran():
    found = []
    for error in (asyncio.CancelledError, ValueError):
        coordinator, ran = MockCoordinator(), []

        def fail(ran=ran, error=error):
            ran.append("the latest")
            raise error("by a cleanup")

        coordinator.register_cleanup(lambda ran=ran: ran.append("the first"))
        coordinator.register_cleanup(fail)
        found.append([await outcome_of(coordinator.cleanup()), ran])
    return found


@case
async def a_loader_is_made_where_there_is_none():
    coordinator = MockCoordinator()
    raised = await outcome_of(initialize_session(CONFIG, coordinator, "s", None))
    return [raised[0], type(coordinator.loader).__name__]


@case
async def an_orchestrator_is_given_no_less_than_empty_mappings():
    class Bare:
        hooks = None

        def get(self, point):
            return {"orchestrator": orchestrator, "context": object()}.get(point)

    orchestrator = Orchestrator()
    await run_orchestrator(Bare(), "a prompt")
    return orchestrator.given


# Events.


class NoMode:
    def model_dump(self):
        return {"by": "no mode"}


class AnyOption:
    def model_dump(self, **options):
        return options


class Raising:
    def model_dump(self, mode=None):
        raise ValueError("no dump")

    def __str__(self):
        return "text"


class NoMethod:
    model_dump = 3

    def __str__(self):
        return "text"


class Listing:
    def model_dump(self, mode):
        return [mode]


@case
async def models_are_dumped_as_they_can_be():
    found = {}
    for model in (NoMode, AnyOption, Raising, NoMethod, Listing):
        hooks, heard = HookRegistry(), []
        hooks.register("acted", lambda event, data, heard=heard: heard.append(without_time(data)))
        result = await hooks.emit("acted", model())
        found[model.__name__] = [heard, without_time(result.data), (await hooks.emit("unheard", model())).data]
    return found


def without_time(data):
    return {key: data[key] for key in data if key != "timestamp"} if isinstance(data, dict) else data


@case
async def an_answer_is_a_model_without_a_mode():
    class Answer:
        def model_dump(self):
            return {"action": "deny", "reason": "by a model"}

    hooks = HookRegistry()
    hooks.register("acted", lambda event, data: Answer())
    result = await hooks.emit("acted", {})
    return [result.action, result.reason]


INJECTIONS = {
    "a text": {"context_injection": "text", "context_injection_role": "user"},
    "an empty text": {"context_injection": ""},
    "an ephemeral text with a message": {"context_injection": "text", "ephemeral": True, "user_message": "said"},
    "a text for the last tool result": {"context_injection": "text", "append_to_last_tool_result": True},
    "a list of one": {"context_injections": [{"content": "text", "hook_name": "another", "event": "another"}]},
    "a list of two": {"context_injections": [{"content": "one"}, {"content": "two", "ephemeral": True}]},
    "a text and a list": {"context_injection": "lost", "context_injections": [{"content": "text"}]},
}


@case
async def one_injection_says_whose_it_is():
    found = {}
    for name, fields in INJECTIONS.items():
        emitted = await emitted_by({"hook-of-it": fields})
        coordinator, context = MockCoordinator(), Context()
        coordinator.display_system = None  # which asynchronous mocks are none of
        await coordinator.mount("context", context)
        left = await coordinator.process_hook_result(emitted, "acted", "the orchestrator's word")
        found[name] = [dumped(emitted), dumped(left), context.messages]
    return found


@case
async def several_injections_are_one_result():
    some = list(INJECTIONS)
    found = {}
    for first, second in pairwise(some):
        result = await emitted_by({"first": INJECTIONS[first], "second": INJECTIONS[second]})
        found[f"{first}, then {second}"] = dumped(result)
    return found


async def emitted_by(answers):
    hooks = HookRegistry()
    for name, fields in answers.items():
        listed = [ContextInjection(**one) for one in fields.get("context_injections", ())]
        answer = HookResult(action="inject_context", **{**fields, "context_injections": listed})
        hooks.register("acted", lambda event, data, answer=answer: answer, name=name)
    return await hooks.emit("acted", {})


def dumped(result):
    return result.model_dump(mode="json", exclude_defaults=True)


@case
async def a_result_that_was_not_emitted_is_acted_on():
    found = {}
    for name, fields in INJECTIONS.items():
        coordinator, context = MockCoordinator(), Context()
        coordinator.display_system = None  # which asynchronous mocks are none of
        await coordinator.mount("context", context)
        result = HookResult(action="inject_context", **fields)
        left = await coordinator.process_hook_result(result, "acted", "the-hook")
        found[name] = [dumped(left), context.messages]
    return found


@case
async def a_context_may_add_messages_synchronously():
    coordinator, context = MockCoordinator(), SynchronousContext()
    await coordinator.mount("context", context)
    result = HookResult(action="inject_context", context_injection="text")
    return [dumped(await coordinator.process_hook_result(result, "acted")), context.messages]


# What needs no session.


@case
async def a_coordinator_is_made_of_nothing():
    coordinator = ModuleCoordinator()
    return [coordinator.session_id, coordinator.parent_id, coordinator.config, coordinator.session_state]


@case
async def a_token_passes_through_its_states():
    token = CancellationToken()
    steps = ("request_graceful", "request_graceful", "request_immediate", "request_graceful", "reset")
    return [[step, getattr(token, step)(), token.state, token.is_cancelled, token.is_immediate] for step in steps]


SPEC = {"module": "a"}
BOTH = {"orchestrator": SPEC, "context": SPEC}
PLANS = [
    {},
    [],
    None,
    {"session": None},
    {"session": {}},
    {"session": BOTH},
    {"session": BOTH, "foo": 1, "agents": 3, "hooks": [], "tools": {}},
    {"session": {"orchestrator": {"module": "a", "source": {"a": 1}}, "context": {"module": "b", "config": {}}}},
    {"session": {"orchestrator": "x", "context": {"module": ""}}, "tools": [{"module": 3, "config": 1, "source": []}]},
    {"session": {"orchestrator": None, "context": {"module": "b", "config": None, "source": None}}},
    {"session": {"orchestrator": {}, "context": {"module": " "}}, "providers": [3, "x", None, SPEC], "hooks": None},
    {"session": BOTH, "tools": [SPEC, SPEC], "orchestrator": {}, "context": {}, "agents": []},
]


@case
async def plans_are_checked():
    found = []
    for plan in PLANS:
        result = MountPlanValidator().validate(plan)
        checks = sorted([check.name, check.passed, check.severity] for check in result.checks)
        lines = result.format_errors().splitlines()
        # The words are each package's own; where they stand is not.
        named = sorted(line.split("] ")[0].split(". ", 1)[1] for line in lines if "] " in line)
        found.append([checks, lines[0], named, lines[-1], len(result.warnings)])
    return found


async def main():
    logging.disable()
    found = {}
    for name, act in CASES.items():
        async with asyncio.timeout(100):
            found[name] = await act()
    print(json.dumps(found, sort_keys=True))


asyncio.run(main())
