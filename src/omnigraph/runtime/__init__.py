"""Time, identifiers, failpoints, telemetry and settings, behind seams that a test can replace.

Time, identifiers, injected faults, telemetry and settings. Nothing here knows about graphs.
"""
