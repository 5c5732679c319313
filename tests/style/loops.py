"""Checks that nothing includes itself in a circle: no folder over others, and no unit over others. A unit is a header with
its source. A front of kernels and its halves may know each other: those of one folder whose names begin with the front's, as
attention_part, attention_part_operands and attention_part_cpu do, and what lies in a folder cuda/ below it. There are so many
of those, and their number only falls.

usage: loops.py SOURCE_DIR
"""
import collections
import pathlib
import re
import sys

from sources import FOLDERS, SUFFIXES

MOST_FRONTS = 15  # that know their halves, which know them
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def includes(root):
    """file -> the project's own headers that it includes, tests left out."""
    paths = [path for folder in FOLDERS if folder != "tests" for path in (root / folder).rglob("*") if path.suffix in SUFFIXES]
    names = {path.relative_to(root).as_posix() for path in paths}
    return {path.relative_to(root).as_posix(): [header for header in INCLUDE.findall(path.read_text()) if header in names]
            for path in paths}


def unit_of(name):
    return name.rsplit(".", 1)[0]


def folder_of(name):
    folder = pathlib.PurePosixPath(name).parent
    return (folder.parent if folder.name == "cuda" and folder.parent.parent.name else folder).as_posix()


def graph(files, node_of):
    edges = collections.defaultdict(set)
    for name, headers in files.items():
        edges[node_of(name)] |= {node_of(header) for header in headers} - {node_of(name)}
    return edges


def loops(edges):
    """The strongly connected components of more than one node (Tarjan, 1972), without recursion."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []
    for start in sorted(edges):
        if start in index:
            continue
        work = [(start, iter(sorted(edges[start])))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        while work:
            node, rest = work[-1]
            step = next(rest, None)
            if step is not None:
                if step not in index:
                    index[step] = low[step] = len(index)
                    stack.append(step)
                    on_stack.add(step)
                    work.append((step, iter(sorted(edges.get(step, ())))))
                elif step in on_stack:
                    low[node] = min(low[node], index[step])
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == index[node]:
                component = [stack.pop()]
                while component[-1] != node:
                    component.append(stack.pop())
                on_stack.difference_update(component)
                if len(component) > 1:
                    found.append(sorted(component))
    return found


def is_front_with_halves(units):
    first = min(units, key=len)
    stem = pathlib.PurePosixPath(first).name
    return f"{first}_cpu" in units and all(
        folder_of(unit + ".h") == folder_of(first + ".h") and pathlib.PurePosixPath(unit).name.startswith(stem) for unit in units)


def violations(root):
    files = includes(root)
    for found in loops(graph(files, folder_of)):
        yield "folders include each other in a circle: " + ", ".join(found)
    of_units = loops(graph(files, unit_of))
    for found in of_units:
        if not is_front_with_halves(found):
            yield "units include each other in a circle: " + ", ".join(found)
    if len(of_units) > MOST_FRONTS:
        yield f"{len(of_units)} fronts include their halves, which include them, at most {MOST_FRONTS}: " + ", ".join(
            min(found, key=len) for found in of_units)


def main():
    found = list(violations(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "loops: no violation")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
