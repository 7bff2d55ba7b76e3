"""What five documents claim, held against what comes out here: one page from the raw results of long runs."""
