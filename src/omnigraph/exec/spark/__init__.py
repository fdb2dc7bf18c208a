"""Reading queries on Spark: the same plans, over the same snapshot, with the same answers."""
