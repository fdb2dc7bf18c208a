"""State machines that drive the real thing beside a model."""
