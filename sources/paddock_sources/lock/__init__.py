"""`paddock.lock`: what each source stands for, read strictly and written in one way."""
