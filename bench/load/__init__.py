"""Group `load`: bulk loads and exports beside the least they could cost, and beside other tools.

The parts: `generate` makes the data, `lines` spells it as NDJSON; `floor` is the least work, `ours`
this graph, `spark_alone`, `ladybug` and `frames` what one would do instead; `worker` and `client`
put each contender into a process of its own and take time and memory; `parts` says what is measured
and `course` measures it; `figures` judges, `page` and `chart` tell.
"""
