"""What a module process does to itself before the first line of untrusted code runs."""
