"""Locks between writers: owners and their leases, claims, read leases, the queue of one process."""
