"""Graphs behind a server, with the interface of an open graph. Needs neither Arrow nor storage."""
