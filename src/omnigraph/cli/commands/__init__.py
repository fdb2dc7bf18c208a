"""One module per command. Each offers `perform`, which prints and answers the exit status."""
