"""What a person sees and types: drawing, questions, notes and progress."""
