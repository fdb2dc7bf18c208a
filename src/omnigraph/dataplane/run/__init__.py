"""Running tasks: on threads of this process, or on Spark."""
