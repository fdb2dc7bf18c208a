"""Results that calls return: plain values, the same in reach of a graph and behind a server."""
