"""Group `years`: what keeps a graph going for years. One module per subject."""
