"""Publishing: the one write of the manifest that makes a change visible."""
