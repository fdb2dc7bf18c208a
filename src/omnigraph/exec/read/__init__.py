"""Reading queries: a plan is prepared once, then run against views."""
