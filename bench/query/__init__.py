"""Group `query`: the same questions to this graph and to its peers, over the same data.

The parts: `generate` makes the data, `questions` says what is asked, `engines` how each engine is
filled and asked, `worker` and `client` put every engine into a process of its own, `check` compares
the answers, `rounds` takes the times, `verdict` judges them, `page` and `chart` tell.

The engines and the worker also run where only the peers are installed: those modules import nothing
of this project but each other, and the peers only when they are used.
"""
