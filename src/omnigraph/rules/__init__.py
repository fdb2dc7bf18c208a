"""The integrity rules of a schema, written once on Arrow; every writer judges with them."""
