"""Which blocks of keys matter to which blocks of queries, predicted from their means."""
