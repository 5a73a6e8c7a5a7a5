"""The chat: a session in a terminal, or line by line without one.

`turn_view` turns the events of a turn into values, and `conversation_screen` draws those. The view knows no terminal,
and the screen knows no events.
"""
