"""Start module processes, capture what they print, see them to their end and say how they ended.

Knows nothing of what is spoken on the socket it hands over, nor of what a module is.
"""
