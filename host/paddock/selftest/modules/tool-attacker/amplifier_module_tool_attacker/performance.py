"""Perform an attack by its name, and tell as plain data what came of each way it knows.

A way has worked, was refused, or is broken: it failed for a reason that has nothing to do with being refused, and so
shows nothing. An attack as a whole has succeeded when any of its ways has.
"""

from __future__ import annotations

import errno
import importlib
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .way import RefusedActError, Way

__all__ = ["FILES", "is_on_the_session", "load", "perform", "perform_in_session"]

_MAX_CHARACTERS = 300  # of what was obtained; enough to recognise it

FILES: Mapping[str, str] = {
    "files": (
        "change_devices change_metadata change_what_may_only_be_read climb_out_of_the_root "
        "find_out_what_exists hold_up_whoever_opens_a_file leave_a_set_user_id_program open_by_handle "
        "plant_what_runs_later pull_in_by_a_link read_a_secret_of_the_environment read_every_file_of_the_home "
        "read_ssh_key reach_devices rewrite_its_own_code use_inherited_descriptors watch_what_others_touch "
        "write_what_was_saved_meanwhile"
    ),
    "processes": (
        "change_limits_of_a_process kill_everything kill_the_host read_environment_of_a_process "
        "read_memory_of_a_process renice_everything_of_the_user signal_through_a_file steal_a_descriptor "
        "trace_a_process"
    ),
    "memory": "remember_what_others_were_told",
    "kernel_calls": (
        "call_as_another_architecture hold_privileges make_namespaces reach_the_kernel read_memory_shared_by_others"
    ),
    "programs": "break_out_with_a_shell run_a_shell run_code_from_memory run_its_own_program",
    "network": (
        "connect_to_a_port_of_the_machine connect_to_an_abstract_socket connect_to_an_agent "
        "find_a_route_to_the_outside open_sockets serve_the_network"
    ),
    "resources": (
        "burn_processor_time eat_memory eat_memory_in_several_processes fill_the_scratch_folder "
        "flood_the_output hold_the_interpreter_lock never_answer open_many_files spin start_a_fork_bomb "
        "start_many_threads write_a_huge_file"
    ),
    "unmapped": "hold_unmapped_memory",
    "endings": "leave_a_daemon leave_a_daemon_and_end_its_keeper refuse_to_end",
    "messages": "flood_the_host lie_to_the_host send_half_a_message stop_reading",
    "ways_out": (
        "ask_for_names be_reached borrow_anothers_proxy connect_by_other_means "
        "connect_to_what_was_not_granted follow_where_it_is_sent name_another_server_in_tls "
        "open_a_listener_that_is_there pass_for_another_at_the_proxy reach_by_a_name "
        "reach_others_at_the_proxys_port spell_addresses_otherwise tell_its_proxy"
    ),
    "smuggling": "smuggle_requests smuggle_requests_in_odd_spaces",
    "floods": "flood_the_way_out flood_with_lookups keep_the_way_out_busy",
    "keys": "find_a_key guess_a_key_by_the_time_of_its_echo have_a_key_shown take_a_key_elsewhere",
    "identity": (
        "ask_in_the_hosts_name become_the_model emit_what_others_decide_by flood_an_honest_hook "
        "flood_with_questions keep_what_it_is_lent listen_honestly listen_without_being_a_hook "
        "mount_in_anothers_name mount_under_a_name_that_looks_alike offer_in_the_hosts_name "
        "reach_what_it_was_not_handed stall_while_others_write take_anothers_things_away use_what_it_was_lent"
    ),
}
"""Which attacks each file beside this one has. Only the file of an attack is loaded: all take longer than most acts."""

_ON_THE_SESSION = "identity"
_FILE_OF = {name: file for file, names in FILES.items() for name in names.split()}


def is_on_the_session(name: str) -> bool:
    """Say whether the attack `name` is one on the session; what its acts return is awaited."""
    return _FILE_OF[name] == _ON_THE_SESSION


def load(name: str) -> Callable[..., Iterator[Way]]:
    """Return the body of the attack `name`; its file is loaded the first time."""
    body: Callable[..., Iterator[Way]] = getattr(importlib.import_module(f".{_FILE_OF[name]}", __package__), name)
    return body


def perform(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Try every way of the attack `name` and return what came of it."""
    ways = []
    try:
        for way, act in load(name)(**arguments):
            ways.append({"way": way, **_tried(act)})
    except RefusedActError as refusal:
        ways.append({"way": "preparation", **_failed(refusal)})
    except Exception as error:
        ways.append({"way": "preparation", **_broken(error)})
    return _told(ways)


async def perform_in_session(name: str, session: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Try every way of the attack `name` on the session of the coordinator `session`."""
    ways = []
    for way, act in load(name)(session, **arguments):
        try:
            told = _obtained(await act())
        except Exception as error:
            told = _failed(error)
        ways.append({"way": way, **told})
    return _told(ways)


def _told(ways: list[dict[str, str]]) -> dict[str, Any]:
    worked = [way for way in ways if way["outcome"] == "worked"]
    return {
        "succeeded": bool(worked),
        "how": "; ".join(f"{way['way']}: {way['how']}" for way in worked or ways)[:_MAX_CHARACTERS],
        "ways": ways,
    }


def _tried(act: Callable[[], object]) -> dict[str, str]:
    try:
        return _obtained(act())
    except Exception as error:
        return _failed(error)


def _obtained(what: object) -> dict[str, str]:
    return {"outcome": "worked", "word": "", "how": " ".join(str(what).split())[:_MAX_CHARACTERS]}


def _failed(error: Exception) -> dict[str, str]:
    """Return what an exception means: a refusal, by some word, or a defect."""
    match error:
        case RefusedActError():
            return _refused(error.word, str(error))
        case TimeoutError():
            return _refused("ETIMEDOUT", f"TimeoutError {error}")
        case MemoryError():
            return _refused("ENOMEM", "MemoryError")
        case OSError() if error.errno is not None:
            word = errno.errorcode.get(error.errno, str(error.errno))
            return _refused(word, f"{type(error).__name__} {word}")
    return _broken(error)


def _refused(word: str, how: str) -> dict[str, str]:
    return {"outcome": "refused", "word": word, "how": how[:_MAX_CHARACTERS]}


def _broken(error: Exception) -> dict[str, str]:
    where = traceback.extract_tb(error.__traceback__)[-1]
    how = f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
    return {"outcome": "broken", "word": "", "how": how[:_MAX_CHARACTERS]}
