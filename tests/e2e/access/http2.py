"""HTTP/2 over TLS by hand: frames that no client library would send, and one honest call."""
import collections
import contextlib
import socket
import ssl
import struct
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
NAMES = ("DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS", "PUSH_PROMISE", "PING", "GOAWAY", "WINDOW_UPDATE",
         "CONTINUATION")
END_STREAM, END_HEADERS = 1, 4
INITIAL_WINDOW_SIZE = 4
SECONDS = 8  # How long a send or a receive may take.


def frame(kind, flags, stream, payload):
    """Returns one frame (RFC 9113, 4.1)."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def integer(value, prefix):
    """Returns an integer of HPACK with zeros in the bits before its prefix (RFC 7541, 5.1)."""
    limit = (1 << prefix) - 1
    if value < limit:
        return bytes([value])
    out = bytearray([limit])
    value -= limit
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes(out + bytes([value]))


def literal(name, value):
    """Returns a header field that is not added to any table (RFC 7541, 6.2.2)."""
    return b"\0" + integer(len(name), 7) + name + integer(len(value), 7) + value


def call_fields(method, *more):
    """Returns the header block of a gRPC call. `more`: further pairs of name and value."""
    fields = [(b":path", b"/" + method.encode()), (b":authority", b"a"), (b"content-type", b"application/grpc"),
              (b"te", b"trailers"), *more]
    return b"\x83\x87" + b"".join(literal(name, value) for name, value in fields)  # POST, https


def message(payload=b"", compressed=0, length=None):
    """Returns a message of gRPC; `length`: what its prefix says if not the truth."""
    return struct.pack(">BI", compressed, len(payload) if length is None else length) + payload


def call(stream, method, payload=b"", *more):
    """Returns the frames of a whole unary call with a small request."""
    return (frame(HEADERS, END_HEADERS, stream, call_fields(method, *more)) +
            frame(DATA, END_STREAM, stream, message(payload)))


def tcp(address, source=None, seconds=SECONDS):
    """Connects to HOST:PORT. `source`: the loopback address to come from."""
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), timeout=seconds, source_address=(source, 0) if source else None)


def tls_context(folder, name, newest=ssl.TLSVersion.TLSv1_3):
    """Returns the settings of a client with the certificate NAME.pem of the folder, or with none. `newest`: the newest
    version of TLS that it offers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(folder / "ca.pem")
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    if newest < ssl.TLSVersion.TLSv1_3:
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = newest
    if name is not None:
        context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    return context


class Connection:
    """One connection to a server over TLS. It reads what the server sends only in drain(). Sending after the server has
    closed is no error; `ended` then says how it closed."""

    def __init__(self, context, address, source=None, greeting=PREFACE + frame(SETTINGS, 0, 0, b""), seconds=SECONDS):
        self.seen = collections.Counter()  # Frames of the server, by name.
        self.resets = collections.Counter()  # Error codes of its RST_STREAM and GOAWAY frames.
        self.answers = b""  # All its DATA.
        self.ended_streams = set()
        self.ended = None
        self.window, self.stream_window = 65535, 65535  # What may be sent on the connection, and on a new stream.
        self.stream_windows = {}  # What may be sent on the streams that have sent data.
        self.unread, self.sent = b"", 0
        plain = tcp(address, source, seconds)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.socket = context.wrap_socket(plain)
        except BaseException:
            plain.close()
            raise
        self.send(greeting)

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        """Sends. Returns whether the connection still lives."""
        if self.ended is None:
            try:
                self.socket.sendall(data)
                self.sent += len(data)
            except OSError as error:
                self.ended = str(error) or type(error).__name__
        return self.ended is None

    def receive(self, seconds):
        """Waits until something arrives, and reads it. Returns whether something arrived."""
        timeout = self.socket.gettimeout()
        self.socket.settimeout(max(seconds, 0))
        try:
            data = self.socket.recv(1 << 16)
        except (ssl.SSLWantReadError, TimeoutError, BlockingIOError):
            return False
        except OSError as error:
            self.ended = getattr(error, "reason", None) or str(error)
            return False
        finally:
            self.socket.settimeout(timeout)
        if not data:
            self.ended = "closed"
        self.read(data)
        return True

    def drain(self, seconds=0.0):
        """Reads what has arrived, and what arrives within this time. Returns whether the connection still lives."""
        until = time.monotonic() + seconds
        while self.ended is None and self.receive(until - time.monotonic()):
            pass
        return self.ended is None

    def read(self, data):
        self.unread += data
        while len(self.unread) >= 9:
            size = int.from_bytes(self.unread[:3], "big")
            if len(self.unread) < 9 + size:
                break
            kind, flags, stream = self.unread[3], self.unread[4], int.from_bytes(self.unread[5:9], "big")
            payload, self.unread = self.unread[9:9 + size], self.unread[9 + size:]
            self.seen[NAMES[kind] if kind < len(NAMES) else str(kind)] += 1
            self.take(kind, flags, stream, payload)

    def take(self, kind, flags, stream, payload):
        if kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM):
            self.ended_streams.add(stream)
        if kind == DATA:
            self.answers += payload
        elif kind == WINDOW_UPDATE and stream == 0:
            self.window += int.from_bytes(payload, "big")
        elif kind == WINDOW_UPDATE:
            window = self.stream_windows.get(stream, self.stream_window)
            self.stream_windows[stream] = window + int.from_bytes(payload, "big")
        elif kind == SETTINGS and not flags & 1:
            for at in range(0, len(payload), 6):
                name, value = struct.unpack_from(">HI", payload, at)
                self.stream_window = value if name == INITIAL_WINDOW_SIZE else self.stream_window
            self.send(frame(SETTINGS, 1, 0, b""))
        elif kind == PING and not flags & 1:
            self.send(frame(PING, 1, 0, payload))
        elif kind in (RST_STREAM, GOAWAY):
            self.resets[int.from_bytes(payload[-4:] if kind == RST_STREAM else payload[4:8], "big")] += 1

    def send_data(self, stream, data, flags=0):
        """Sends a stream's data as far as the window of the connection allows. Returns how much was sent."""
        data = data[:max(0, min(self.window, self.stream_windows.get(stream, self.stream_window)))]
        for at in range(0, len(data), 16384):
            part = data[at:at + 16384]
            last = flags if at + len(part) == len(data) else 0
            if not self.send(frame(DATA, last, stream, part)):
                return at
            self.window -= len(part)
            self.stream_windows[stream] = self.stream_windows.get(stream, self.stream_window) - len(part)
        return len(data)

    def flood(self, frames, reads=True):
        """Sends frames until all are sent or the server closes the connection. Returns how many were sent. `reads`: read the
        server's answers meanwhile."""
        num_sent, batch, num_in_batch = 0, bytearray(), 0
        for one in frames:
            batch += one
            num_in_batch += 1
            if len(batch) >= 16384:
                if not self.send(bytes(batch)) or (reads and not self.drain()):
                    return num_sent
                num_sent, batch, num_in_batch = num_sent + num_in_batch, bytearray(), 0
        return num_sent + num_in_batch if self.send(bytes(batch)) else num_sent

    def flood_calls(self, calls, outstanding=900):
        """Sends calls, each of which the server answers, with at most so many unanswered. Returns how many were sent."""
        num_sent = 0
        for one in calls:
            while num_sent - len(self.ended_streams) >= outstanding and self.receive(SECONDS):
                pass
            if not self.send(one) or (num_sent % 50 == 0 and not self.drain()):
                break
            num_sent += 1
        return num_sent


def honest_call(context, address, request, expected, seconds):
    """Connects, asks for a job with this request, and returns how long it took until the answer contained the expected
    bytes; None if that did not happen within the time."""
    begin = time.monotonic()
    with contextlib.suppress(OSError), Connection(context, address, seconds=seconds) as connection:
        connection.send(call(1, "ampd.v1.JobService/GetJob", request))
        while connection.ended is None and time.monotonic() - begin < seconds:
            connection.receive(1)
            if expected in connection.answers:
                return time.monotonic() - begin
    return None
