// The msgrpc wire over MQTT 5 as a stranger would write it: vanilla mqtt.js and @msgpack/msgpack, nothing of the crate.
// peer.mjs and caller.mjs share it. Both speak JSON lines on stdin and stdout, for the tests and for hands.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import path from 'node:path';
import { Keys, stranger } from './signing.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
export const installed = process.env.PLANTBRIDGE_INTEROP_NODE ?? path.join(here, '../../target/interop/node');
const require = createRequire(path.join(installed, 'package.json'));
export const mqtt = require('mqtt');
const msgpack = require('@msgpack/msgpack');

export const MSGPACK = 'application/msgpack';
export const JSON_TYPE = 'application/json';

/** Turns `--flag value --switch` into an object; every flag in `switches` takes no value. */
export function options(switches) {
  const found = { url: undefined, prefix: 'msgrpc/v2' };
  const words = process.argv.slice(2);
  while (words.length > 0) {
    const word = words.shift();
    if (!word.startsWith('--')) throw new Error(`unexpected word '${word}'`);
    const name = word.slice(2);
    if (switches.includes(name)) found[name] = true;
    else if (words.length > 0) found[name] = words.shift();
    else throw new Error(`${word} needs a value`);
  }
  if (!found.url || !found.name) throw new Error('--url and --name are needed');
  return found;
}

/** Prints one JSON line. */
export function say(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

/** Runs `handle` for every JSON line of stdin, in order, and `end` when stdin is closed. */
export async function listen(handle, end) {
  for await (const line of createInterface({ input: process.stdin })) {
    if (line.trim() === '') continue;
    const asked = JSON.parse(line);
    try {
      await handle(asked);
    } catch (error) {
      say({ id: asked.id, failed: error.message });
    }
  }
  await end();
}

/** A value as these scripts print it: what JSON lacks is tagged. */
export function tag(value) {
  if (value === undefined) return { $undefined: true };
  if (value instanceof Date) return { $date: value.toISOString() };
  if (value instanceof Uint8Array) return { $bytes: Buffer.from(value).toString('base64') };
  if (typeof value === 'number' && !Number.isFinite(value)) return { $number: String(value) };
  if (Array.isArray(value)) return value.map(tag);
  if (value && typeof value === 'object') return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, tag(v)]));
  return value;
}

/** The reverse of {@link tag}. */
export function untag(value) {
  if (Array.isArray(value)) return value.map(untag);
  if (!value || typeof value !== 'object') return value;
  const keys = Object.keys(value);
  if (keys.length === 1) {
    if (keys[0] === '$undefined') return undefined;
    if (keys[0] === '$date') return new Date(value.$date);
    if (keys[0] === '$bytes') return new Uint8Array(Buffer.from(value.$bytes, 'base64'));
    if (keys[0] === '$number') return Number(value.$number);
  }
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, untag(v)]));
}

/** A body as bytes. JSON has no form for "nothing"; `null` stands for it (W-063). */
export function encode(value, type) {
  if (type === JSON_TYPE) return Buffer.from(JSON.stringify(value === undefined ? null : value));
  return Buffer.from(msgpack.encode(value, { ignoreUndefined: true }));
}

/** A body as a value; an empty payload is nothing. */
export function decode(payload, type) {
  if (payload.length === 0) return undefined;
  if (type === JSON_TYPE) return JSON.parse(payload.toString('utf8'));
  if (type === undefined || type === '' || type === MSGPACK) return msgpack.decode(payload);
  throw new Error(`content type ${type}`);
}

/** Whether a text may name a peer on this link: 1 to 128 UTF-16 units, no controls, nothing that divides topics. */
function isName(text) {
  return typeof text === 'string' && /^[^\u0000-\u001f\u007f#+/]{1,128}$/.test(text);
}

/** One MQTT connection that stands for one peer. */
export class Wire {
  constructor(given) {
    this.name = given.name;
    this.prefix = given.prefix;
    this.given = given;
    this.keys = given.sign && new Keys(given.sign);
    this.frame = () => {};
    this.presence = () => {};
    this.connected = () => {};
    this.closed = () => {};
  }

  topic(channel, peer) {
    return `${this.prefix}/${channel}/${peer}`;
  }

  /** Connects, subscribes, announces; `shape` goes along with the announcement. */
  async join(channels, shape) {
    const gone = { topic: this.topic('presence', this.name), payload: Buffer.from('offline'), retain: true, qos: 1 };
    this.client = mqtt.connect(this.given.url, {
      protocolVersion: 5,
      clientId: this.given['client-id'] ?? `msgrpc-${this.name}`,
      username: this.given.username,
      password: this.given.password,
      clean: true,
      keepalive: 60,
      resubscribe: false,
      reconnectPeriod: this.given['no-reconnect'] ? 0 : 200,
      will: this.given['no-presence'] ? undefined : gone,
      properties: { sessionExpiryInterval: 0 },
    });
    this.client.on('message', (topic, payload, packet) => this.receive(topic, payload, packet));
    this.client.on('connect', () => this.given['no-delay'] && this.client.stream.setNoDelay(true));
    this.client.on('connect', () => this.connected());
    this.client.on('close', () => this.closed());
    this.client.on('error', (error) => say({ trouble: error.message }));
    const announce = async () => {
      for (const channel of channels) await this.client.subscribeAsync(this.topic(channel, this.name), { qos: 1 });
      await this.client.subscribeAsync(this.topic('presence', '+'), { qos: 0 });
      if (!this.given['no-presence']) await this.announce('online', shape);
    };
    let first = true;
    await new Promise((joined, failed) => {
      this.client.on('connect', () => {
        const again = !first;
        first = false;
        announce().then(
          () => (again ? say({ rejoined: true }) : joined()),
          (error) => (again ? say({ trouble: error.message }) : failed(error)),
        );
      });
    });
  }

  async announce(state, shape) {
    const properties = shape === undefined ? {} : { userProperties: { shape } };
    await this.client.publishAsync(this.topic('presence', this.name), state, { qos: 1, retain: true, properties });
  }

  /** `offline`, then nothing, then DISCONNECT (W-035). */
  async leave() {
    if (!this.given['no-presence'] && this.client.connected) {
      await this.announce('offline');
      await this.announce('');
    }
    await this.client.endAsync();
  }

  /** Ends without a goodbye: the broker publishes the will. */
  vanish() {
    this.client.stream.destroy();
  }

  receive(topic, payload, packet) {
    const mine = this.topic('presence', '');
    if (topic.startsWith(mine)) {
      const peer = topic.slice(mine.length);
      const shape = [packet.properties?.userProperties?.shape ?? []].flat()[0];
      if (peer !== this.name) this.presence(peer, payload.toString('utf8'), shape, packet.retain);
      return;
    }
    const given = packet.properties ?? {};
    const user = Object.fromEntries(Object.entries(given.userProperties ?? {}));
    const twice = Object.entries(user).find(([key, value]) => key.startsWith('mr-') && Array.isArray(value));
    if (twice) return say({ refused: `${twice[0]} occurs twice` });
    if (!isName(user['mr-src'])) return say({ refused: `mr-src ${user['mr-src']}` });
    const doubt = this.keys?.doubt(topic, payload, given, user);
    if (doubt) return say({ refused: doubt });
    let body;
    try {
      body = decode(payload, given.contentType);
    } catch (error) {
      return say({ refused: error.message });
    }
    this.frame({
      topic,
      body,
      empty: payload.length === 0,
      source: user['mr-src'],
      kind: user['mr-kind'],
      user,
      type: given.contentType,
      correlation: given.correlationData,
      responseTopic: given.responseTopic,
      expiry: given.messageExpiryInterval,
    });
  }

  /**
   * Publishes one frame: `user` are its properties; `named` is the content type it claims, where that is not `type`;
   * `raw` are the bytes of the body, where they are no encoding of it; `bend` is what becomes of a signed frame.
   */
  async send(topic, body, about) {
    const { type, correlation, responseTopic, expiry, user, raw, bend } = about;
    let payload = raw ?? encode(body, type);
    const properties = {
      payloadFormatIndicator: type === JSON_TYPE,
      userProperties: Object.fromEntries(
        Object.entries({ 'mr-v': '3', 'mr-src': this.name, ...user }).filter(([, value]) => value !== undefined),
      ),
    };
    const named = 'named' in about ? about.named : type;
    if (named !== undefined) properties.contentType = named;
    if (correlation !== undefined) properties.correlationData = Buffer.from(correlation);
    if (responseTopic !== undefined) properties.responseTopic = responseTopic;
    if (expiry !== undefined) properties.messageExpiryInterval = expiry;
    if (this.keys && bend !== 'unsigned') payload = this.seal(topic, payload, properties, bend);
    await this.client.publishAsync(topic, payload, { qos: 1, properties });
    if (bend === 'replayed') await this.client.publishAsync(topic, payload, { qos: 1, properties });
  }

  /** Signs, and then bends what was signed. Returns the payload that is sent. */
  seal(topic, payload, properties, bend) {
    const { own } = this.keys;
    if (bend === 're-signed') this.keys.own = stranger();
    const late = { stale: 62_000, future: -65_000 }[bend];
    this.keys.sign(bend === 're-addressed' ? `${topic}-2` : topic, payload, properties, late);
    this.keys.own = own;
    if (bend === 'redirected') properties.responseTopic += '-2';
    return bend === 'truncated' ? payload.subarray(0, payload.length - 1) : payload;
  }
}
