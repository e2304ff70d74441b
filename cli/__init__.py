"""Command line: words on a screen over `treering.query.store`; it computes nothing itself."""
