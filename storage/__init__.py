"""Storage: bytes on disk that lose nothing. Events go in as batches, come out as parts; it knows no other room.

In the order of an event's life: `batch` (what travels between rooms) → `wal` (acknowledged) → `memtable` →
`memory`, `patt`, `vectors`, `postings` (a segment to be) → `segment` (on disk) → `manifest`, `catalog` (the commit) →
`ring` (all of it, open) → `snapshot`, `part` (what a query reads). `files` is the one seam to the operating system.

This face imports nothing, so that the command line's help stays light; import from the modules.
"""
