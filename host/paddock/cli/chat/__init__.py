"""The chat: a session in a terminal, or line by line without one.

Events of a turn become values (`turn_view`), which are drawn (`conversation_screen`); neither knows the other's source.
"""
