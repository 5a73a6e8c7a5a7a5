"""A base of rows: a subclass says everything that its base declares, or is refused when it is made."""

from __future__ import annotations

from typing import ClassVar


class Row:
    """Base of classes that are rows of a table: each has every class variable and abstract method of its base.

    The base itself sets `is_base`.
    """

    __slots__ = ()

    is_base: ClassVar[bool]

    def __init_subclass__(cls) -> None:
        """Check the row.

        Raises:
            TypeError: it leaves something out; the message names each part.
        """
        super().__init_subclass__()
        if "is_base" in vars(cls):
            return
        base = next(one for one in cls.__mro__ if "is_base" in vars(one))
        said = [name for name, hint in vars(base)["__annotations__"].items() if hint.startswith("ClassVar")]
        lacking = {name for name in said if not hasattr(cls, name)}
        lacking |= {name for name in dir(cls) if getattr(getattr(cls, name, None), "__isabstractmethod__", False)}
        if lacking:
            parts = ", ".join(f"`{name}`" for name in sorted(lacking))
            problem = f"`{cls.__name__}` is no whole kind of source: it lacks {parts}"
            raise TypeError(f"{problem}; `{base.__module__}.{base.__name__}` says what that is for")
