"""Group `server`: reads and writes over HTTP, large bodies, and a server that is killed."""
