// A hub that shares nothing with the crate: the socket.io server, and what the wire says a hub does with presence and frames.
// It is a peer too, named `bus-1`, which exposes nothing.
//
// Options: --port (0 for any), --tokens '{"token": "name"}' (only those get in, each under its name), --issuers
// '{"name": "secret"}' (who may vouch for programs of their own, by credentials that wire.md 8.5 tells of)
// It prints {"presented": token, "as": name, "roles": …} for everybody it lets in by a token, {"hub": url} when it listens, and {"announced": name, "v": …} for every announcement.
// Wishes on stdin: {"do":"cut","name":…} ends a connection, {"do":"stop"} sends everybody away and ends.

import { createRequire } from 'node:module';
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';
import path from 'node:path';
import { installed, listen, say } from './wire.mjs';

const require = createRequire(path.join(installed, 'package.json'));
const { Server } = require('socket.io');
const msgpack = require('@msgpack/msgpack');

const ME = 'bus-1';
const words = process.argv.slice(2);
const option = (name, otherwise) => (words.includes(name) ? words[words.indexOf(name) + 1] : otherwise);
const tokens = JSON.parse(option('--tokens', 'null'));
const issuers = JSON.parse(option('--issuers', '{}'));
const peers = new Map();

const http = createServer();
const hub = new Server(http, { maxHttpBufferSize: 1_000_000, pingInterval: 25_000, pingTimeout: 20_000 });

/** What a credential claims that an issuer signed; nothing if it does not hold. */
function vouched(token) {
  const [form, encoded, signature] = String(token).split('.');
  if (form !== 'srpc-d1' || !signature) return undefined;
  const claims = JSON.parse(Buffer.from(encoded, 'base64').toString('utf8'));
  const secret = issuers[claims.issuer];
  if (!secret) return undefined;
  const sorted = JSON.stringify(Object.fromEntries(Object.entries(claims).sort(([a], [b]) => (a < b ? -1 : 1))));
  const right = createHmac('sha256', Buffer.from(secret, 'utf8')).update(`srpc-d1.${sorted}`).digest();
  const given = Buffer.from(signature, 'base64');
  const now = Date.now();
  const holds = now - 5000 < claims.expiresAt && claims.issuedAt <= now + 5000;
  return given.length === right.length && timingSafeEqual(given, right) && holds ? claims : undefined;
}

hub.use((socket, next) => {
  if (!tokens) return next();
  const { token } = socket.handshake.auth;
  const claims = tokens[token] ? { subject: tokens[token] } : vouched(token);
  if (!claims) return next(new Error('unauthorized'));
  say({ presented: token, as: claims.subject, roles: claims.roles, generation: claims.generation });
  socket.data.only = claims.subject;
  return next();
});

function tell(socket, said) {
  for (const other of new Set([...peers.values()].map((peer) => peer.socket))) {
    if (other !== socket) other.emit('presence', said);
  }
}

function announced(socket, said) {
  const { name, shape } = said;
  if (typeof name !== 'string' || !/^[^\u0000-\u0020\u007f]{1,128}$/.test(name)) return;
  if (socket.data.only && socket.data.only !== name) return;
  const others = [...peers].filter(([other]) => other !== name);
  const shapes = Object.fromEntries(others.filter(([, peer]) => peer.shape).map(([other, peer]) => [other, peer.shape]));
  socket.emit('presence', { peers: [ME, ...others.map(([other]) => other)], shapes });
  const was = peers.get(name);
  peers.set(name, { socket, shape });
  say({ announced: name, v: said.v, shape });
  if (was?.socket !== socket || was.shape !== shape) tell(socket, { peer: name, state: 'online', shape });
}

function send(socket, flat) {
  socket.emit('frame', Buffer.from(msgpack.encode(flat, { ignoreUndefined: true })));
}

function relay(socket, bytes) {
  let flat;
  try {
    flat = msgpack.decode(bytes);
  } catch (error) {
    return say({ refused: error.message });
  }
  if (flat?.v !== 2 || !flat.src || !flat.tgt) return say({ refused: 'no flat frame' });
  if (socket.data.only && socket.data.only !== flat.src) return undefined;
  const refuse = (code, message) => {
    if (!['call', 'subscribe', 'unsubscribe'].includes(flat.kind)) return;
    send(socket, { v: 2, src: ME, tgt: flat.src, kind: 'error', corr: flat.corr, code, body: { name: 'RpcError', message } });
  };
  if (flat.tgt === ME) return refuse('ClassNotFound', `${flat.path}.${flat.method} is not exposed`);
  const hops = (Number.isInteger(flat.hops) && flat.hops >= 0 ? flat.hops : 0) + 1;
  const peer = peers.get(flat.tgt);
  if (!peer) return refuse('TransportError', `${ME}: no route to '${flat.tgt}'`);
  if (hops > 8) return refuse('TransportError', `${ME}: over 8 relays`);
  return send(peer.socket, { ...flat, hops });
}

hub.on('connection', (socket) => {
  socket.on('presence', (said) => announced(socket, said));
  socket.on('frame', (bytes) => relay(socket, bytes));
  socket.on('disconnect', () => {
    for (const [name, peer] of [...peers]) {
      if (peer.socket !== socket) continue;
      peers.delete(name);
      say({ gone: name });
      tell(socket, { peer: name, state: 'offline' });
    }
  });
});

const wishes = {
  cut: ({ name }) => peers.get(name)?.socket.conn.close(),
  away: ({ name }) => peers.get(name)?.socket.disconnect(true),
  stop,
};

async function stop() {
  hub.disconnectSockets(true);
  await hub.close();
  process.exit(0);
}

http.listen(Number(option('--port', '0')), '127.0.0.1', () => say({ hub: `http://127.0.0.1:${http.address().port}` }));
await listen((asked) => wishes[asked.do](asked), stop);
