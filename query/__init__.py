"""Query: text, JSON or Python to an abstract query, to a bound plan, to an answer.

In the order of a query's life: `parse`, `json_form`, `builder` → `ast` → `bind` (with `names`, `times`) → `bound` →
`prune` → `scan`, `semantic`, `order`, `aggregate` (all from `execute`) → `result`. `store` is what a person opens.

This face imports nothing, so that the command line's help stays light; import from the modules or from `treering`.
"""
