"""The method numbers of the two endpoints, and the sections of mirrored state.

Target 0 of a request is the peer itself; these are its methods. Methods of any other target are
positions in the member list of that object's description. Numbers are never reused.
"""

from __future__ import annotations

from enum import IntEnum


class HostMethod(IntEnum):
    """A worker's requests to its host."""

    REGISTER = 1  # [event, priority, name | None, handler] -> registration
    UNREGISTER = 2  # [registration] -> None
    UNREGISTER_NAME = 3  # [name] -> None
    LIST_HANDLERS = 4  # [event | None] -> {event: [name]}
    EMIT = 5  # [event, data] -> HookResult
    EMIT_AND_COLLECT = 6  # [event, data, timeout] -> [data]
    SET_DEFAULT_FIELDS = 7  # [fields] -> None
    MOUNT = 8  # [point, name | None, object] -> None
    UNMOUNT = 9  # [point, name | None] -> bool
    REGISTER_CAPABILITY = 10  # name, then the value, opaque -> None
    SET_ATTRIBUTE = 11  # name, then the value, opaque -> None
    DELETE_ATTRIBUTE = 12  # [name] -> None
    PATCH_STATE = 13  # [[path, [value] | []]…] -> None (notification)
    REGISTER_CONTRIBUTOR = 14  # [channel, name, callback] -> None
    COLLECT_CONTRIBUTIONS = 15  # [channel] -> [contribution]
    REGISTER_CLEANUP = 16  # [function] -> None
    PROCESS_HOOK_RESULT = 17  # [result, event, hook name] -> HookResult
    TOOL_STARTED = 18  # [call id, name] (notification)
    TOOL_COMPLETED = 19  # [call id] (notification)
    REQUEST_CANCEL = 20  # ["graceful" | "immediate" | "reset"] -> bool
    ON_CANCEL = 21  # [callback] -> None
    TRIGGER_CANCEL_CALLBACKS = 22  # [] -> None
    REQUEST_APPROVAL = 23  # [prompt, options, timeout, default] -> reply
    SHOW_MESSAGE = 24  # [message, level, source] (notification)
    DESCRIBE = 25  # [object id, description] (notification): the object's data changed
    RESET_TURN = 26  # [] (notification)
    EXPLAIN = 27  # [[[kind, target]…], seconds] -> [denial]: the attempts of a failed call, in that time
    ATTEMPTED = 28  # [[kind, target]…] (notification): other failed attempts of the module
    EMITTER = 29  # [] -> name | None: the emitter of the event that the asking handler is called with


class WorkerMethod(IntEnum):
    """A host's requests to its worker."""

    MOUNT = 1  # {package, import_root, libraries, attribute, config} -> outcome
    SESSION_READY = 2  # [] -> None
    DESCRIBE_ANEW = 3  # [] -> None, once all changes of mounted objects have been sent


class MirrorSection(IntEnum):
    """The parts of shared state that a host keeps current in every worker."""

    SESSION = 1  # {session_id, parent_id, config, is_resumed, initialized, has_approval, has_display, session}
    HEARD = 2  # [event, has handlers]
    MOUNTED = 3  # [point, name | None, object]
    UNMOUNTED = 4  # [point, name | None]
    CAPABILITY = 5  # name, then the value
    ATTRIBUTE = 6  # name, then the value
    ATTRIBUTE_DELETED = 7  # [name]
    STATE = 8  # [[path, [value] | []]…]
    CONTRIBUTOR = 9  # [channel, name, callback, number]
    CANCELLATION = 10  # [state, {running call id: tool name}]
    DESCRIPTION = 11  # of the object that is the target: a description
    CONTRIBUTOR_WITHDRAWN = 12  # [channel, number]
    DATA = 13  # of the object that is the target: {name: value}, [name that is gone]
