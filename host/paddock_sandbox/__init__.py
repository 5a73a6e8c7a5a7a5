"""The steps that a module process takes on itself before the first line of untrusted code runs."""
