"""The files of the operator and the user that decide what may be granted, and who may write them."""
