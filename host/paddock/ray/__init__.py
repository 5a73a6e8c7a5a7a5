"""Run tasks on the nodes of a Ray cluster, each session isolated on its node; needs the extra `ray`."""

from paddock.ray.run import run

__all__ = ["run"]
