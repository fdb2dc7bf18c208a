"""The tests, as a package: so that helpers are imported by name from anywhere."""
