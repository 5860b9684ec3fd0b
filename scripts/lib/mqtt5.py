"""Enough of MQTT 5 and of the wire to call peers, from the standard library alone. Nothing is ever sent twice."""

import json
import os
import socket
import struct
import time
import urllib.parse
import uuid

JSON = "application/json"


class Refused(Exception):
    """The peer answered with an error, or not at all (code UnknownOutcome: it may have run)."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def _text(value):
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack(">H", len(raw)) + raw


def _length(number):
    out = b""
    while True:
        number, digit = divmod(number, 128)
        out += bytes([digit | (128 if number else 0)])
        if not number:
            return out


def _packet(kind, body):
    return bytes([kind]) + _length(len(body)) + body


class Caller:
    """A peer that calls others and serves nothing."""

    def __init__(self, environment=os.environ):
        self.name = environment["SOURCE_RPC_NAME"]
        self.prefix = environment.get("SOURCE_RPC_PREFIX", "msgrpc/v2")
        url = urllib.parse.urlsplit(environment["SOURCE_RPC_BROKER"])
        if url.scheme not in ("mqtt", "tcp"):
            raise SystemExit(f"{url.scheme}:// is not spoken here; the paho-mqtt package speaks it")
        self.socket = socket.create_connection((url.hostname, url.port or 1883), timeout=10)
        self.answers = f"{self.prefix}/rsp/{self.name}"
        # Clean start; the session ends with the connection, so that nothing is kept for us while we are away.
        connect = _text("MQTT") + bytes([5, 2]) + struct.pack(">H", 0) + _length(5) + b"\x11" + struct.pack(">I", 0)
        self._send(0x10, connect + _text(f"msgrpc-{self.name}"))
        self._expect(0x20, lambda body: body[1] == 0)
        self._send(0x82, struct.pack(">H", 1) + _length(0) + _text(self.answers) + b"\x00")
        self._expect(0x90, lambda body: body[-1] < 0x80)

    def call(self, peer, path, method, *args, ttl=5.0):
        """Calls once, and gives what the method returned."""
        correlation = str(uuid.uuid4())
        user = {"mr-v": "3", "mr-src": self.name, "mr-kind": "call", "mr-path": path, "mr-method": method}
        user["mr-ttl"] = str(int(ttl * 1000))
        properties = b"\x01\x01\x02" + struct.pack(">I", max(1, int(ttl))) + b"\x03" + _text(JSON)
        properties += b"\x08" + _text(self.answers) + b"\x09" + _text(correlation)
        for name, value in user.items():
            properties += b"\x26" + _text(name) + _text(value)
        topic = _text(f"{self.prefix}/req/{peer}")
        self._send(0x30, topic + _length(len(properties)) + properties + json.dumps(list(args)).encode())
        until = time.monotonic() + ttl
        while True:
            kind, body = self._read(until, f"{peer}.{path}.{method} did not answer; it may have run")
            if kind & 0xF0 != 0x30:
                continue
            user, answered, payload = self._publish(kind, body)
            if answered != correlation.encode():
                continue
            value = json.loads(payload) if payload else None
            if user.get("mr-kind") == "result":
                return value
            code = user.get("mr-code", "Exception")
            raise Refused(code, f"{peer}.{path}.{method}: {code}: {value}")

    def _publish(self, kind, body):
        (topic,) = struct.unpack_from(">H", body)
        at = 2 + topic + (2 if kind & 0x06 else 0)
        length, at = self._number(body, at)
        end, user, correlation = at + length, {}, b""

        def text(at):
            (size,) = struct.unpack_from(">H", body, at)
            return body[at + 2 : at + 2 + size], at + 2 + size

        while at < end:
            key, at = body[at], at + 1
            if key == 0x26:
                name, at = text(at)
                value, at = text(at)
                user[name.decode()] = value.decode()
            elif key in (0x03, 0x08, 0x09):
                value, at = text(at)
                correlation = value if key == 0x09 else correlation
            elif key == 0x0B:
                _, at = self._number(body, at)
            else:
                at += {0x01: 1, 0x02: 4, 0x23: 2}[key]
        return user, correlation, body[end:]

    @staticmethod
    def _number(body, at):
        value, shift = 0, 0
        while True:
            byte, at = body[at], at + 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value, at

    def _send(self, kind, body):
        self.socket.sendall(_packet(kind, body))

    def _expect(self, wanted, holds):
        kind, body = self._read(time.monotonic() + 10, "the broker does not answer")
        if kind != wanted or not holds(body):
            raise SystemExit(f"the broker refuses: {kind:#x} {body.hex()}")

    def _read(self, until, silence):
        head = self._exactly(1, until, silence)[0]
        length, shift = 0, 0
        while True:
            byte = self._exactly(1, until, silence)[0]
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return head, self._exactly(length, until, silence)

    def _exactly(self, size, until, silence):
        out = b""
        while len(out) < size:
            self.socket.settimeout(max(0.001, until - time.monotonic()))
            try:
                piece = self.socket.recv(size - len(out))
            except TimeoutError:
                raise Refused("UnknownOutcome", silence) from None
            if not piece:
                raise SystemExit("the broker closed the connection")
            out += piece
        return out
