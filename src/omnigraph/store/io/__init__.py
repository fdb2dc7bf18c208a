"""Object storage: calls, objects, streams of bytes, and what makes local writes durable."""
