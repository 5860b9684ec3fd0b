// A hub that shares nothing with the crate: the socket.io server, and what the wire says a hub does with presence and frames.
// It is a peer too, named `bus-1`, which exposes nothing.
//
// Options: --port (0 for any), --tokens '{"token": "name"}' (only those get in, each under its name), --issuers
//   '{"name": "secret"}' (who may vouch for programs of their own, by credentials that wire.md 8.5 tells of), --ping MS (the
//   heartbeat, and how long a peer may take to answer), --bus (serves the path `bus`: mirrors what it passes on), --json (writes
//   frames as JSON, as a network does that is configured so)
// It prints {"presented": token, "as": name, "roles": …} for everybody it lets in by a token,
//   {"hub": url} when it listens, {"announced": name, "v": …} for every announcement, {"gone": name}, {"pong": name}
// with --ping, with --tell {"relayed": kind, "hops": …, "codec": …} for every frame it passes on, and {"tapped": count} with --bus.
// Wishes on stdin: {"do":"cut","name":…} ends a connection, {"do":"stop"} sends everybody away and ends,
//   {"do":"ghost","name":…,"state":…} tells everybody of a peer that is not there, {"do":"legacy","name":…} sends a frame of the
//   older layout, {"do":"raw","name":…,"flat":{…}} sends a flat frame as it is given.

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
const ping = Number(option('--ping', '25000'));
const asJson = words.includes('--json');
const mirrors = words.includes('--bus');
const tells = words.includes('--tell');
const taps = new Map();
const listeners = new Set();
const asked = new Map();

const http = createServer();
const hub = new Server(http, { maxHttpBufferSize: 1_000_000, pingInterval: ping, pingTimeout: Math.min(ping * 4, 20_000) });

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
  // Whoever announced himself is told, also if somebody else has his name now.
  for (const other of hub.sockets.sockets.values()) {
    if (other !== socket && other.data.announced) other.emit('presence', said);
  }
}

function announced(socket, said) {
  const { name, shape } = said;
  if (typeof name !== 'string' || !/^[^\u0000-\u0020\u007f]{1,128}$/.test(name)) return;
  if (socket.data.only && socket.data.only !== name) return;
  const others = [...peers].filter(([other]) => other !== name);
  const shapes = Object.fromEntries(others.filter(([, peer]) => peer.shape).map(([other, peer]) => [other, peer.shape]));
  socket.emit('presence', { peers: [ME, ...others.map(([other]) => other)], shapes });
  socket.data.announced = true;
  const was = peers.get(name);
  peers.set(name, { socket, shape });
  for (const carried of Array.isArray(said.carrying) ? said.carrying.slice(0, 1000) : []) {
    if (!peers.has(carried)) peers.set(carried, { socket });
  }
  say({ announced: name, v: said.v, shape });
  if (was?.socket !== socket || was.shape !== shape) tell(socket, { peer: name, state: 'online', shape });
}

function send(socket, flat) {
  const bytes = asJson ? Buffer.from(JSON.stringify(flat)) : Buffer.from(msgpack.encode(flat, { ignoreUndefined: true }));
  socket.emit('frame', bytes);
}

/** What a peer of other configuration wrote as JSON begins with a brace; nothing in MessagePack that is a map does. */
function decoded(bytes) {
  const json = bytes[0] === 0x7b;
  return [json ? JSON.parse(Buffer.from(bytes).toString('utf8')) : msgpack.decode(bytes), json ? 'json' : 'msgpack'];
}

const KINDS = { call: 'POST', subscribe: 'POST', unsubscribe: 'POST', result: 'SUCCESS', error: 'ERROR', event: 'EVENT', ticket: 'TICKET', batch: 'BATCH' };

/** Tells whoever taps of a frame that is passed on between two others. */
function mirror(flat) {
  const kind = KINDS[flat.kind];
  if (kind === 'POST') asked.set(flat.corr, { at: Date.now(), namespace: flat.path, method: flat.method });
  const call = kind === 'SUCCESS' || kind === 'ERROR' ? asked.get(flat.corr) : undefined;
  if (call) asked.delete(flat.corr);
  const wanted = ({ peer, namespace }) =>
    (!peer || peer === flat.src || peer === flat.tgt) && (!namespace || namespace === (flat.path ?? call?.namespace));
  const matched = [...taps].filter(([, filter]) => wanted(filter)).map(([token]) => token);
  if (matched.length === 0) return;
  const frame = { at: Date.now(), source: flat.src, target: flat.tgt, kind, taps: matched };
  if (kind !== 'BATCH') {
    Object.assign(frame, { namespace: flat.path ?? call?.namespace, method: flat.method ?? call?.method, event: flat.event, id: flat.corr });
    Object.assign(frame, { code: flat.code, error: kind === 'ERROR' ? flat.body?.message : undefined, ms: call && Date.now() - call.at });
    const carries = kind === 'POST' || kind === 'EVENT' ? 'params' : 'result';
    if (kind !== 'ERROR' && matched.some((token) => taps.get(token).payloads)) frame[carries] = flat.body;
  }
  for (const name of listeners) {
    const peer = peers.get(name);
    if (peer) send(peer.socket, { v: 2, src: ME, tgt: name, kind: 'event', path: 'bus', event: 'frame', body: [frame] });
  }
}

const bus = {
  on: (flat) => void listeners.add(flat.src) ?? 'ok',
  off: (flat) => (listeners.delete(flat.src) ? 'ok' : 'ok - was not subscribed'),
  tap: (flat) => {
    const token = `tap-${Math.random().toString(36).slice(2)}`;
    const filter = flat.body?.[0] ?? {};
    taps.set(token, filter);
    say({ tapped: taps.size });
    return { token, expires: Date.now() + (filter.ttl ?? 300) * 1000, filter };
  },
  untap: (flat) => {
    const already = !taps.delete(flat.body[0]);
    say({ tapped: taps.size });
    return { tapping: false, already };
  },
  taps: () => ({ bus: ME, taps: [...taps].map(([token, filter]) => ({ token, filter })), pending: asked.size }),
};

/** What is for the hub itself; false if it serves no such thing. */
function served(socket, flat) {
  const method = mirrors && flat.path === 'bus' ? bus[flat.method] : undefined;
  if (!method) return false;
  send(socket, { v: 2, src: ME, tgt: flat.src, kind: 'result', corr: flat.corr, body: method(flat) });
  return true;

}

function relay(socket, bytes) {
  let flat;
  let codec;
  try {
    [flat, codec] = decoded(bytes);
  } catch (error) {
    return say({ refused: error.message });
  }
  if (flat?.v !== 2 || !flat.src || !flat.tgt) return say({ refused: 'no flat frame' });
  if (socket.data.only && socket.data.only !== flat.src) return undefined;
  const refuse = (code, message) => {
    if (!['call', 'subscribe', 'unsubscribe'].includes(flat.kind)) return;
    send(socket, { v: 2, src: ME, tgt: flat.src, kind: 'error', corr: flat.corr, code, body: { name: 'RpcError', message } });
  };
  if (flat.tgt === ME && served(socket, flat)) return undefined;
  if (flat.tgt === ME) return refuse('ClassNotFound', `${flat.path}.${flat.method} is not exposed`);
  const hops = (Number.isInteger(flat.hops) && flat.hops >= 0 ? flat.hops : 0) + 1;
  const peer = peers.get(flat.tgt);
  if (!peer) return refuse('TransportError', `${ME}: no route to '${flat.tgt}'`);
  if (hops > 8) return refuse('TransportError', `${ME}: over 8 relays`);
  if (tells) say({ relayed: flat.kind, from: flat.src, to: flat.tgt, hops, codec });
  if (mirrors) mirror(flat);
  return send(peer.socket, { ...flat, hops });
}

hub.on('connection', (socket) => {
  socket.conn.on('packet', ({ type }) => {
    if (type === 'pong' && ping < 25_000) say({ pong: [...peers].find(([, peer]) => peer.socket === socket)?.[0] });
  });
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

/** The older layout: a header in JSON, a dollar sign, an envelope (wire.md 12). */
function legacy(name) {
  const header = JSON.stringify({ source: 'veteran', target: name, time: Date.now(), seq: 1 });
  const call = { id: 'old-1', type: 'POST', path: 'scale', method: 'tare', params: [] };
  const blob = Buffer.concat([Buffer.from(`${header}$`), Buffer.from(msgpack.encode({ type: 'REQUEST', payload: call }))]);
  peers.get(name).socket.emit('message', blob);
}

const wishes = {
  ghost: ({ name, state }) => tell(undefined, { peer: name, state }),
  legacy: ({ name }) => legacy(name),
  raw: ({ name, flat }) => send(peers.get(name).socket, flat),
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
