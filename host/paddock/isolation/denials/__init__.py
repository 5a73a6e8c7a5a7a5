"""What a module was refused: found out, explained and logged, with the line that would allow it."""
