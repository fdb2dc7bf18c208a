"""The HTTP server: graphs under `/graphs/{graph_id}`, for any client."""
