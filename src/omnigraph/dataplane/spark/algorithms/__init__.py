"""Graph algorithms on Spark, with the answers of those in one process.

Vertices are numbered as there, and divided into blocks of successive numbers. What is known of the
vertices of a block is one row of a DataFrame, as an array in a binary; so are the edges from one
block to another. Spark brings such rows together, and the tasks compute with arrays.
"""
