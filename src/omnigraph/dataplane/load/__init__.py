"""Loading: decode, judge, write fragments, one commit."""
