"""Tables and pictures made from records and arrays; nothing here trains."""
