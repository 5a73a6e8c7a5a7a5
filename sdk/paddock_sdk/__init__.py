"""What runs inside a module process, and what module authors import."""
