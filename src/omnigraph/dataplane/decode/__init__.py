"""From bytes and foreign columns to rows as tables store them."""
