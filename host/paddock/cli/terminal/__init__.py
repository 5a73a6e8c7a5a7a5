"""A person's terminal: drawing, questions, notes and progress."""
