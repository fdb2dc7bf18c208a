"""Graph algorithms on Spark, with the answers of those in one process.

Vertices are numbered as there, and edges are arrays in binaries of a DataFrame that stays with the
session. The values of all vertices travel with the tasks as one array (`broadcast`); of very many
vertices they are divided into blocks that send each other messages (`messages`).
"""
