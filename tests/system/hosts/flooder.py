#!/usr/bin/env python3
"""Connects to an address as fast as it can, until it is killed. Says "knocking" on standard output before.

usage: flooder.py KIND ADDRESS PORT PROCESSES

close: and closes at once; hold: and keeps the last 200 open; nonsense: and says something that is no TLS;
hello: and begins TLS with a server of another name.
"""
import os
import socket
import ssl
import sys
from collections import deque


def hello_for(name):
    context = ssl.create_default_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    connection = context.wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        connection.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def flood(kind, where):
    first = {"nonsense": b"GET / HTTP/1.1\r\n\r\n", "hello": hello_for("0" * 32 + ".invalid")}.get(kind, b"")
    kept = 200 if kind == "hold" else 1
    opened = deque()
    print("knocking", flush=True)
    while True:
        connection = socket.socket()
        try:
            connection.connect(where)
            if first:
                connection.send(first)
        except OSError:
            pass  # nobody listens yet, or any more
        if kind == "close":
            connection.close()
            continue
        opened.append(connection)
        if len(opened) > kept:
            opened.popleft().close()


def main():
    kind, address, port, processes = sys.argv[1:]
    for _ in range(int(processes) - 1):
        if os.fork() == 0:
            break
    flood(kind, (address, int(port)))


if __name__ == "__main__":
    main()
