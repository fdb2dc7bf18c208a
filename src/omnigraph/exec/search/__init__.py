"""Search: text by terms, phrases and typos, vectors by distance, and the fusion of rankings."""
