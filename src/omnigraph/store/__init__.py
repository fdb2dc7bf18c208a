"""Storage: objects, and tables kept by Lance. Knows Arrow, not graphs."""
