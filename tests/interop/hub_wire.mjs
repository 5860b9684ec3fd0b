// The msgrpc wire over a hub as a stranger would write it: vanilla socket.io-client and @msgpack/msgpack. It shows the same
// face as the Wire of wire.mjs, so that peer.mjs and caller.mjs run over either.

import { createRequire } from 'node:module';
import path from 'node:path';
import { JSON_TYPE, MSGPACK, installed, say } from './wire.mjs';

const require = createRequire(path.join(installed, 'package.json'));
const { io } = require('socket.io-client');
const msgpack = require('@msgpack/msgpack');

/** The fields of a flat frame that scripts know by their names on MQTT, and the type each has. */
const FIELDS = {
  path: String,
  method: String,
  event: String,
  code: String,
  ver: String,
  ttl: Number,
  idem: String,
  fence: String,
  outcome: String,
  seq: Number,
  epoch: String,
};

/** One Socket.IO connection that stands for one peer. */
export class HubWire {
  constructor(given) {
    this.name = given.name;
    this.given = given;
    this.frame = () => {};
    this.presence = () => {};
    this.connected = () => {};
    this.closed = () => {};
  }

  topic(channel, peer) {
    return `${channel}/${peer}`;
  }

  /** Connects as such clients do, by polling first, and announces itself on every connection. */
  async join(_channels, shape) {
    this.shape = shape;
    const auth = this.given.token === undefined ? undefined : { token: this.given.token };
    this.socket = io(this.given.url, { auth, reconnectionDelay: 200 });
    this.socket.on('frame', (bytes) => this.receive(bytes));
    this.socket.on('message', () => say({ refused: 'the older layout' }));
    this.socket.on('presence', (said) => this.said(said));
    this.socket.on('disconnect', () => this.closed());
    this.socket.on('connect_error', (error) => say({ trouble: error.message }));
    let first = true;
    await new Promise((joined) => {
      this.settled = () => {
        if (first) joined();
        else say({ rejoined: true });
        first = false;
      };
      this.socket.on('connect', () => {
        this.connected();
        this.announce('online', this.shape);
      });
    });
  }

  announce(_state, shape) {
    this.shape = shape;
    this.socket.emit('presence', { name: this.name, v: 2, shape });
  }

  async leave() {
    this.socket.disconnect();
  }

  /** Ends without a goodbye. */
  vanish() {
    this.socket.io.engine.transport.ws.terminate();
  }

  said(said) {
    if (said.peers) {
      for (const peer of said.peers) this.presence(peer, 'online', said.shapes?.[peer]);
      return this.settled();
    }
    if (said.peer !== this.name) this.presence(said.peer, said.state, said.shape);
    return undefined;
  }

  receive(bytes) {
    const json = bytes[0] === 0x7b;
    const flat = json ? JSON.parse(Buffer.from(bytes).toString('utf8')) : msgpack.decode(bytes);
    if (flat.v !== 2 || flat.tgt !== this.name) return say({ refused: `v ${flat.v} for ${flat.tgt}` });
    for (const one of flat.kind === 'batch' ? flat.batch : [flat]) {
      const user = { 'mr-deferred': one.deferred === true ? '1' : undefined };
      for (const field of Object.keys(FIELDS)) if (one[field] !== undefined) user[`mr-${field}`] = String(one[field]);
      const correlation = one.corr === undefined ? undefined : Buffer.from(one.corr);
      this.frame({ body: one.body, empty: !('body' in one), source: flat.src, kind: one.kind, user, type: json ? JSON_TYPE : MSGPACK, correlation, hops: flat.hops });
    }
    return undefined;
  }

  async send(topic, body, about) {
    this.put(this.flat(topic, body, about), about.type);
  }

  /** Several requests to one peer in one frame, as other callers send by themselves. */
  async batch(topic, members) {
    const batch = members.map(({ body, about }) => this.flat(topic, body, about));
    const { v, src, tgt } = batch[0];
    this.put({ v, src, tgt, kind: 'batch', batch }, MSGPACK);
  }

  put(flat, type) {
    const json = type === JSON_TYPE;
    const bytes = json ? Buffer.from(JSON.stringify(flat)) : Buffer.from(msgpack.encode(flat, { ignoreUndefined: true }));
    this.socket.emit('frame', bytes);
  }

  flat(topic, body, { correlation, user }) {
    const flat = { v: 2, src: user['mr-src'] ?? this.name, tgt: topic.split('/').pop(), kind: user['mr-kind'] };
    if (correlation !== undefined) flat.corr = Buffer.from(correlation).toString('utf8');
    for (const [field, type] of Object.entries(FIELDS)) {
      if (user[`mr-${field}`] !== undefined) flat[field] = type(user[`mr-${field}`]);
    }
    if (user['mr-deferred']) flat.deferred = true;
    if (user.hops !== undefined) flat.hops = user.hops;
    flat.body = body;
    return flat;
  }
}
