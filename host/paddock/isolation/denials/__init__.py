"""Denials: acts that a module was refused are found, explained and logged, with the line that would allow them."""
