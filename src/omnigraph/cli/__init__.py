"""The command line: reads files and the environment, calls the library, prints."""
