"""The `.gq` query language: text and catalog in, plans out."""
