"""Everything that trains for a result: one plan, one trial, one store, one pool of workers, one result."""
