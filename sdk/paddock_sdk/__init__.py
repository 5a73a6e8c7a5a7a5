"""The code that runs inside a module process, and the code that module authors import."""
