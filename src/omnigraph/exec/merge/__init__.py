"""Three-way merge of branches."""
