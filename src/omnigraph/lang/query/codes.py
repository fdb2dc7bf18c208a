"""The codes of query diagnostics. Append only: a code never changes its meaning."""

from __future__ import annotations

from enum import StrEnum


class QueryCode(StrEnum):
    """The codes of errors and warnings about queries."""

    SYNTAX = "Q000"
    DUPLICATE_QUERY = "Q001"
    UNKNOWN_NODE_TYPE = "T1"
    UNKNOWN_MATCH_PROPERTY = "T2"
    LITERAL_MISMATCH = "T3"
    UNKNOWN_EDGE = "T4"
    ENDPOINT_MISMATCH = "T5"
    UNBOUND = "T6"
    INCOMPATIBLE = "T7"
    AGGREGATE_OPERAND = "T8"
    GROUPING = "T9"
    MUTATION_TYPE = "T10"
    MUTATION_PROPERTY = "T11"
    MISSING_REQUIRED = "T12"
    DUPLICATE_ASSIGNMENT = "T13"
    MUTATION_VARIABLE = "T14"
    HOPS_OR_NEAREST = "T15"
    IDENTITY_UPDATE = "T16"
    NEAREST_NEEDS_LIMIT = "T17"
    RANKING_ORDER = "T18"
    SEARCH_OPERAND = "T19"
    TEXT_RANK_OPERAND = "T20"
    RRF = "T21"
    UNDIRECTED = "T22"
    EDGE_BINDING = "T23"
    BLOB_READ = "T24"
    DUPLICATE_COLUMN = "T25"
    NAME_CLASH = "T26"
    DISTINCT_ORDER = "T27"
    BOUND_TYPE = "T28"
    OPTIONAL_USE = "T29"
    MIXED_MUTATION = "D2"
    NEVER_SET = "L201"
    NO_PARAMETERS = "L202"
    UNUSED_PARAMETER = "L203"
    CROSS_JOIN = "L204"


MEANINGS: dict[QueryCode, str] = {
    QueryCode.SYNTAX: "the text does not follow the grammar",
    QueryCode.DUPLICATE_QUERY: "two queries of a file have the same name",
    QueryCode.UNKNOWN_NODE_TYPE: "a binding names a node type that the schema lacks",
    QueryCode.UNKNOWN_MATCH_PROPERTY: "a binding names a property that the type lacks",
    QueryCode.LITERAL_MISMATCH: "a literal does not fit the type of its property",
    QueryCode.UNKNOWN_EDGE: "a traversal names an edge type that the schema lacks",
    QueryCode.ENDPOINT_MISMATCH: "a variable has no type that its edges connect, or more than one",
    QueryCode.UNBOUND: "a variable, property or column is not known here",
    QueryCode.INCOMPATIBLE: "two values of these types cannot be compared or assigned",
    QueryCode.AGGREGATE_OPERAND: "an aggregate cannot work on this operand",
    QueryCode.GROUPING: "a block or a grouped query uses something out of its reach",
    QueryCode.MUTATION_TYPE: "a statement names an unknown type or assigns nothing",
    QueryCode.MUTATION_PROPERTY: "a statement uses a property that it cannot use",
    QueryCode.MISSING_REQUIRED: "an insert leaves out a required property or end",
    QueryCode.DUPLICATE_ASSIGNMENT: "a property is assigned twice",
    QueryCode.MUTATION_VARIABLE: "a statement uses a variable that is no parameter",
    QueryCode.HOPS_OR_NEAREST: "hop bounds or the operands of nearest are wrong",
    QueryCode.IDENTITY_UPDATE: "an update would change what identifies an entity",
    QueryCode.NEAREST_NEEDS_LIMIT: "nearest orders without a limit",
    QueryCode.RANKING_ORDER: "a ranking that is not returned is not the first key, or is reversed",
    QueryCode.SEARCH_OPERAND: "search or fuzzy got an operand of the wrong type",
    QueryCode.TEXT_RANK_OPERAND: "match_text or bm25 got an operand of the wrong type",
    QueryCode.RRF: "rrf got the wrong rankings, k or no limit",
    QueryCode.UNDIRECTED: "an undirected traversal needs an edge between equal types",
    QueryCode.EDGE_BINDING: "an edge variable is used where only a node can be",
    QueryCode.BLOB_READ: "a Blob is not a value that queries can read",
    QueryCode.DUPLICATE_COLUMN: "two result columns have the same name",
    QueryCode.NAME_CLASH: "a name is declared twice or is reserved",
    QueryCode.DISTINCT_ORDER: "distinct rows can only be ordered by what they return",
    QueryCode.BOUND_TYPE: "limit and offset take a whole number or an integer parameter",
    QueryCode.OPTIONAL_USE: "an optional block or its variables are used out of place",
    QueryCode.MIXED_MUTATION: "one query both deletes and inserts or updates",
    QueryCode.NEVER_SET: "no update query ever sets this nullable property",
    QueryCode.NO_PARAMETERS: "a mutation has no parameters, so it can only do one thing",
    QueryCode.UNUSED_PARAMETER: "a declared parameter is never used",
    QueryCode.CROSS_JOIN: "parts of the pattern are not connected",
}
