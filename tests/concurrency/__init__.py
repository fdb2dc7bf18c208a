"""Many writers at once, in threads and in processes."""
