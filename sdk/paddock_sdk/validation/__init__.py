"""What a module of each kind has to have, and the checks that tell."""
