"""OmniGraph: a typed property-graph database with a schema and a query language of its own.

This module is the public surface. Names listed in ``__all__`` are API; every other module of the
package is internal, however its name is spelled.
"""

from omnigraph import errors

__all__ = ["__version__", "errors"]

__version__ = "0.1.0"
