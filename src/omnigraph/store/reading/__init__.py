"""Reading beyond a scan: rows by address, large values, the difference of two versions."""
