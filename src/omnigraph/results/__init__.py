"""Results that calls return: plain values, the same for embedded graphs and behind a server."""
