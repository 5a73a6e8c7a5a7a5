"""Mounts of modules, and newer descriptions of their mounted objects."""

from __future__ import annotations

import json
from collections.abc import Mapping

from paddock.errors import Denial
from paddock.plan.problems import type_text
from paddock.rpc.peer import DescriptionRefusedError, Handle
from paddock.session.host_api.emissions import MAX_NAME
from paddock.session.host_api.handler import Decode, handles
from paddock.session.host_api.part import ServicePart
from paddock.session.module import HostedModule
from paddock_sdk.contract.boundary_errors import OverLimitError
from paddock_sdk.protocol.description import check_description, decode_description
from paddock_sdk.protocol.methods import HostMethod


class MountService(ServicePart):
    """Serves the mount requests of one session's workers."""

    @handles(HostMethod.MOUNT, "mount request", decode=Decode.HANDLES)
    def mount(
        self,
        module: HostedModule,
        point: str,
        name: str | None,
        obj: object,
    ) -> None:
        """Mount an object of the module's, but no tool that is not as it was pinned, or that no provider would take."""
        if max(len(point), len(name or "")) > MAX_NAME:
            raise ValueError(f"an object is mounted under a name of at most {MAX_NAME} characters")
        if point == "tools" and isinstance(obj, Handle):
            known = obj.description(self._marshaller.codec).attributes
            shown = name or str(known.get("name"))
            if _is_spoilt(module, "mount", shown, known) or not self._is_pinned(module, shown, obj):
                return
        module.quota.spend(("mount", point, name), module.peer.weight_of(obj))
        module.mount(point, name, obj)

    @handles(HostMethod.UNMOUNT, "unmount request")
    def unmount(
        self,
        module: HostedModule,
        point: str,
        name: str | None,
    ) -> bool:
        """Unmount an object of the module's; return whether there was one."""
        module.quota.give_back(("mount", point, name))
        return module.unmount(point, name)

    @handles(HostMethod.DESCRIBE, "object description", decode=Decode.DATA, is_notice=True)
    def describe(
        self,
        module: HostedModule,
        object_id: int,
        description: bytes,
    ) -> None:
        """Take an object's new description."""
        handle = module.peer.export(object_id)
        if handle is None:
            return
        budget, weight = module.rate_limits.descriptions, check_description(description)
        if not budget.admits(self._now(), weight):
            if budget.begins_flood:
                reason = f"it says more of them anew than {budget.per_second / (1 << 20):g} MiB a second"
                module.deny(Denial("describe", "objects", module.name, reason=reason))
            return
        try:
            module.peer.weigh(object_id, weight)
        except OverLimitError as exc:
            module.deny(Denial("describe", "objects", module.name, reason=str(exc)))
            return
        point, name = handle.mounted or ("", None)
        if point == "tools":
            known = decode_description(description, self._marshaller.codec).attributes
            if _is_spoilt(module, "describe", str(name), known):
                return  # it stays as it was
        try:
            before = self._marshaller.redescribe(handle, description)
        except DescriptionRefusedError as refused:
            known = handle.description(self._marshaller.codec).attributes
            self._withdraw(module, "describe", str(known["name"]), refused)
            return
        self._mirrors.redescribed(handle, before)

    def _is_pinned(self, module: HostedModule, name: str, tool: Handle) -> bool:
        """Return whether a tool may be mounted so, and hold it to that; else the one at its place is withdrawn.

        Only tools of MCP servers have pins.
        """
        pins = self._definitions.at(module.entry.path)
        if pins is None or not module.owns(tool):
            return True  # what is another's is refused as such
        codec = self._marshaller.codec
        try:
            pins.check(name, tool.description(codec))
        except DescriptionRefusedError as refused:
            self._withdraw(module, "mount", name, refused)
            return False
        tool.hold_to(lambda described: pins.check(name, decode_description(described, codec)))
        return True

    def _withdraw(self, module: HostedModule, operation: str, name: str, refused: DescriptionRefusedError) -> None:
        """Unmount a tool of the module's that has another definition now, and note it as a denial."""
        module.deny(Denial(operation, f"tools:{name}", module.name, reason=str(refused)))
        self.unmount(module, "tools", name)


def _is_spoilt(module: HostedModule, operation: str, name: str, attributes: Mapping[str, object]) -> bool:
    """Return whether a tool of these attributes would have a provider refuse every tool, and note it as a denial."""
    problem = _schema_problem(attributes.get("input_schema", {}))
    if problem:
        module.deny(Denial(operation, f"tools:{name}", module.name, reason=problem))
    return bool(problem)


def _schema_problem(schema: object) -> str:
    """Return why no provider takes a tool's `input_schema`, if so; a description's caps bound its size and depth."""
    if not isinstance(schema, dict):
        return f"its `input_schema` is {type_text(schema)}, and has to be an object: a JSON schema"
    try:
        json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError) as error:
        return f"its `input_schema` is no JSON: {error}"
    return ""
