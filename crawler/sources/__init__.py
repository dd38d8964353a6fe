"""The sources of `winnow replay`: archives, folders, files and pipes, behind one seam.

    open_inputs(paths) -> inputs, problems          opening.py
    input.pages(limits=..., other=...) -> items     one pass, in the order of the input

An item is a `Page` or an `Unread`. Its ordinal counts the items of its input from 0 and is the same on
every pass, so a pass may start late or take a share and still speak of the same items.

| file | holds |
|---|---|
| seam.py | what a reader is told and gives |
| opening.py | paths to inputs; the table of readers |
| sniff.py | which format a file is |
| folder.py, page.py, jsonl.py, warc.py | the readers |
| records.py, window.py, gz.py | WARC records out of plain and gzip bytes, damage passed over |
| http.py, coding.py, when.py | HTTP responses, their codings, times |
"""

from crawler.sources.opening import open_inputs
from crawler.sources.seam import Input, Item, Limits

__all__ = ["Input", "Item", "Limits", "open_inputs"]
