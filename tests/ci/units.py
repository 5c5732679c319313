"""Which command compiles a source: a library's sources are compiled several at a time (DS_JOINED), each such unit a file
of the build that includes them."""
import os
import pathlib
import re

INCLUDED = re.compile(r'#include "([^"]+)"')


def is_joined(file):
    return re.search(r"/joined/\w+_\d+\.cpp$", file) is not None


def by_source(entries, root):
    """Pairs of a source's path and the entry of a compilation database that compiles it, whose `file` is the source or
    the unit that it is part of."""
    for entry in entries:
        file = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
        if not is_joined(file):
            yield file, entry
            continue
        for source in INCLUDED.findall(pathlib.Path(file).read_text()):
            yield os.path.normpath(os.path.join(root, source)), entry


def alone(entries, root):
    """The same database, as if every source were compiled alone."""
    return [entry | {"file": source, "command": entry["command"].replace(entry["file"], source)}
            for source, entry in by_source(entries, root)]
