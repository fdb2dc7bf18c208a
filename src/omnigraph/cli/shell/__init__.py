"""The interactive shell: queries with history, completion and commands of its own."""
