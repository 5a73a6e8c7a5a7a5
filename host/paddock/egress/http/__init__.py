"""Requests and answers of HTTP that the host reads, judges and writes anew."""
