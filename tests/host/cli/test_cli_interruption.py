from __future__ import annotations

import signal

import anyio

from paddock.cli.terminal.interruption import Interruption
from support.rows import each_row


class Command:
    """Something that runs, and notes what it is asked."""

    def __init__(self, *, is_running: bool) -> None:
        self.asked: list[str] = []
        self.told: list[str] = []
        self._is_running = is_running

    def stop_gently(self) -> bool:
        self.asked.append("gently")
        return self._is_running

    def stop_now(self) -> None:
        self.asked.append("now")

    def interruption(self) -> Interruption:
        return Interruption(self.told.append, self.stop_gently, self.stop_now)

    async def until_asked(self, times: int) -> None:
        with anyio.fail_after(60):
            while len(self.asked) < times:
                await anyio.lowlevel.checkpoint()


async def test_the_first_interruption_is_gentle_and_the_second_is_not() -> None:
    command = Command(is_running=True)
    with command.interruption() as interruption:
        assert not interruption.happened
        signal.raise_signal(signal.SIGINT)
        await command.until_asked(1)
        assert interruption.happened
        assert command.asked == ["gently"] and "Ctrl-C again stops at once" in command.told[0]
        signal.raise_signal(signal.SIGINT)
        await command.until_asked(2)
    assert command.asked == ["gently", "now"]


async def test_a_request_to_terminate_ends_it_now() -> None:
    command = Command(is_running=True)
    with command.interruption() as interruption:
        signal.raise_signal(signal.SIGTERM)
        await command.until_asked(1)
        assert interruption.happened
    assert command.asked == ["now"]


async def test_what_does_not_end_gently_is_ended_now_and_the_next_signal_kills() -> None:
    command = Command(is_running=False)
    with command.interruption():
        signal.raise_signal(signal.SIGINT)
        await command.until_asked(2)
        assert command.asked == ["gently", "now"]
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@each_row("number", [signal.SIGINT, signal.SIGTERM])
async def test_leaving_gives_the_signals_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Command(is_running=True).interruption():
        pass
    assert signal.getsignal(number) is before
