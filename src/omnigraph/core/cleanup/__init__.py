"""Clean-up: removes the versions and files that no state of the graph needs which is to stay.

`survey` reads what is there; `retention` and `table_plan` decide, purely; `cleaner` acts.
"""
