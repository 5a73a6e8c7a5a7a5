"""What a conversation keeps of a tool's result, to the byte."""

from __future__ import annotations

from integration.semantics.places import Place
from support.rows import each_row


@each_row("is_heard", [False, True], ids=["nobody hears it", "somebody hears it"])
async def test_a_tools_result_is_written_down_in_three_ways(place: Place, is_heard: bool) -> None:
    outcome = await place.run("transcripts.written_down", is_heard=is_heard)
    assert outcome == {
        "of the dump": '{"error": null, "output": {"rc": 0, "stdout": "hi"}, "success": true}',
        "of the object": "{'stdout': 'hi', 'rc': 0}",
        "serialized": '{"stdout": "hi", "rc": 0}',
        "left": [None, 2 if is_heard else 0, None],
    }
