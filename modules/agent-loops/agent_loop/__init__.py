"""The agent loop that loop-basic, loop-streaming and loop-events share; it names none of them in code."""
