"""`paddock.lock`: the code that each source stands for, read strictly and written in one way."""
