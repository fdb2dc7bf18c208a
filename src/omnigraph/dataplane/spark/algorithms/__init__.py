"""Graph algorithms on Spark, with the answers of those in one process.

Vertices are numbered as there, and edges are arrays in binaries of a DataFrame that stays with the
session. Up to some millions of edges go to one task, which iterates by itself (`one_task`). Of more
edges the values of all vertices travel with the tasks as one array (`broadcast`); of very many
vertices they are divided into blocks that send each other messages (`messages`).
"""
