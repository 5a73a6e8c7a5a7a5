"""Print the public names of whichever contract package is found: of each module, and of each class in it, as JSON."""

import importlib
import inspect
import json
import pkgutil

import amplifier_core


def is_ours(value):
    """Whether a value is the package's own: no module, and nothing of another package but its commands."""
    if inspect.ismodule(value):
        return False
    home = getattr(value, "__module__", None)
    return home is None or home in ("builtins", "click.core") or home.split(".")[0] in ("amplifier_core", "paddock_sdk")


def public(names):
    return sorted(name for name in names if not name.startswith("_"))


def names_in(module):
    found = {}
    for name in public({*vars(module), *getattr(module, "__all__", ()), *dir(module)}):
        value = getattr(module, name)
        if not is_ours(value):
            continue
        members = ()
        if inspect.isclass(value):
            inherited = {name for base in value.__mro__[1:] if not is_ours(base) for name in vars(base)}
            members = public(name for name in dir(value) if name not in inherited)
        found[name] = list(members)
    return found


def module_names():
    yield "amplifier_core"
    for module in pkgutil.walk_packages(amplifier_core.__path__, "amplifier_core."):
        if not any(part.startswith("_") for part in module.name.split(".")):
            yield module.name


def named(name):
    try:
        return names_in(importlib.import_module(name))
    except ModuleNotFoundError:  # of an optional dependency
        return {}


print(json.dumps({name: named(name) for name in module_names()}))
