"""Start module processes, capture what they print, see them to their end and say how they ended.

Knows nothing of what is spoken on the socket it hands over, nor of what a module is.
"""

from paddock.process.clock import Clock, SystemClock
from paddock.process.exec import ExecLauncher
from paddock.process.exit_report import ExitReason, ExitReport, LimitHit
from paddock.process.exit_status import ExitStatus, FailedStep
from paddock.process.launcher import Launcher, LaunchSpec
from paddock.process.module_process import ModuleProcess
from paddock.process.output import OutputLine, OutputRing
from paddock.process.restart_policy import RestartPolicy, RestartState
from paddock.process.runtime import WorkerRuntime
from paddock.process.supervisor import Supervisor
from paddock.process.template import TemplateLauncher
from paddock.process.worker_sockets import WorkerSockets

__all__ = [
    "Clock",
    "ExecLauncher",
    "ExitReason",
    "ExitReport",
    "ExitStatus",
    "FailedStep",
    "LaunchSpec",
    "Launcher",
    "LimitHit",
    "ModuleProcess",
    "OutputLine",
    "OutputRing",
    "RestartPolicy",
    "RestartState",
    "Supervisor",
    "SystemClock",
    "TemplateLauncher",
    "WorkerRuntime",
    "WorkerSockets",
]
