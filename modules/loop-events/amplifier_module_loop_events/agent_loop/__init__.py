"""The agent loop: the same files in loop-basic, loop-streaming and loop-events (see adr/0001 of loop-basic).

Each module is complete on its own, as a module on an index is. Their common tests are those of loop-basic.
"""
