"""The files of the operator and the user that decide what may be granted, and the check of who may write them."""
