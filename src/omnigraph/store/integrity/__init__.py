"""Checksums, files that a power cut left torn, and the quarantine for them. Knows no table."""
