"""What every layer needs from the outside world, behind seams that a test can own.

Time, identifiers, injected faults, telemetry and settings. Nothing here knows about graphs.
"""
