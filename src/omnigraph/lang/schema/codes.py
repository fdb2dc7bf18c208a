"""The diagnostic codes of the schema language. Append only: a published code keeps its meaning.

`S000` is syntax, `S1xx` names and declarations, `S2xx` types, `S3xx` annotations, `S4xx`
constraints, `S5xx` what belongs to values (embeddings, metrics, defaults), `S9xx` warnings.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

SYNTAX: Final = "S000"

CODES: Final = MappingProxyType(
    {
        SYNTAX: "the text does not follow the grammar",
        "S101": "two node types have the same name",
        "S102": "two edge types have the same name",
        "S103": "two interfaces have the same name",
        "S104": "two enums have the same name",
        "S105": "an enum has the name of a node type or an interface",
        "S106": "two edge types differ only in the case of their names",
        "S107": "an edge connects a type that is not declared",
        "S108": "an edge connects an interface or an enum",
        "S109": "a node implements an interface that is not declared",
        "S110": "two properties of a type have the same name",
        "S111": "a property has a name that the storage uses itself",
        "S112": "a property is called `id`, which every entity has already",
        "S113": "an edge property has a name that means an end of the edge",
        "S114": "an enum has the name of a built-in type",
        "S201": "a property has a type that is not declared",
        "S202": "a property has a node type, an edge type or an interface as its type",
        "S203": "a vector has no elements",
        "S204": "a vector has too many elements",
        "S205": "an enum has no values",
        "S206": "an enum names a value twice",
        "S207": "a list of Blob",
        "S208": "a list of an enum",
        "S209": "a list of Vector",
        "S210": "a list of lists",
        "S211": "a property and an interface disagree about its type",
        "S212": "a Vector without a dimension",
        "S301": "an annotation that is allowed once is given twice",
        "S302": "@description or @instruction without exactly one text",
        "S303": "@instruction on a property",
        "S304": "@rename_from without exactly one old name",
        "S305": "an annotation of properties is written on a type",
        "S306": "@range or @check behind a property instead of in the body",
        "S307": "@key on a property of an edge",
        "S308": "two declarations claim the same old name",
        "S401": "a type has more than one @key",
        "S402": "a constraint names a property that the type does not have",
        "S403": "a @key property is nullable",
        "S404": "a @key property is a list, a Vector or a Blob",
        "S405": "a @unique property is a list, a Vector or a Blob",
        "S406": "an @index property is a list or a Blob",
        "S407": "@range on a property that is not a number",
        "S408": "the lower bound of a @range is above the upper one",
        "S409": "a property has two @range constraints",
        "S410": "@check on a property that is not a String",
        "S411": "the pattern of a @check is not a usable regular expression",
        "S412": "@range or @check on an edge",
        "S413": "the @key of an edge leaves out an end",
        "S414": "a constraint names a property twice",
        "S415": "the minimum of @card is above the maximum",
        "S416": "a bound of @card is too large",
        "S501": "@embed on a property that is not a Vector",
        "S502": "@embed without exactly one source property",
        "S503": "the source of @embed is not a property of the type",
        "S504": "the source of @embed is not a String",
        "S505": "@embed has an argument that it does not know",
        "S506": "the model of @embed is not a text",
        "S507": "@embed on a property of an edge",
        "S510": "@metric on a property that is not a Vector",
        "S511": "@metric without exactly one known metric",
        "S520": "@default without exactly one literal",
        "S521": "@default of null",
        "S522": "@default on a Blob or a Vector",
        "S523": "a default of another type than its property",
        "S524": "a default outside the range of its type",
        "S525": "a default that is not a value of its enum",
        "S526": "a default text that is not a date or a date-time",
        "S527": "a default that breaks the @range of its property",
        "S901": "an annotation that is kept as it is, but looks like a misspelt known one",
        "S902": "a node names an interface twice",
    }
)
