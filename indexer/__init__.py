"""Indexer: sources to events, texts to vectors, events to signals.

In the order of a log's life: `sources` (bytes) → `jsonl`, `textlog` (records) → `ingest` (acknowledged) → `decode`
(columns: `flatten`, `canonical`, `parts`, `mask`) → `fill` (what waits for the model: `embedder`, `heads`, `path`,
`grounding`). `signals` is the one table of signals. `model` finds the weights, `light` embeds a query without torch.

This face imports nothing, so that the command line's help stays light; import from the modules.
"""
