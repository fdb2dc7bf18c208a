"""The manifest: read per branch, in every format; its refs and its migration."""
