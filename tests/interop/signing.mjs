// Signed frames as a stranger would write them, with the crypto of Node alone: the bytes of wire.md 8.2, HMAC-SHA256 and
// Ed25519, and the checks of 8.4. Keys come from a key file as `--sign` of the bridge takes it.

import { createHmac, createPrivateKey, createPublicKey, randomBytes, sign, timingSafeEqual, verify } from 'node:crypto';
import { readFileSync } from 'node:fs';

const WINDOW = 60_000;
/** What stands before the 32 bytes of a seed and of a public key in the forms that Node reads. */
const PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex');
const SPKI = Buffer.from('302a300506032b6570032100', 'hex');

const REQUESTS = new Set(['call', 'subscribe', 'unsubscribe']);

function hmac(secret) {
  const over = (bytes) => createHmac('sha256', Buffer.from(secret, 'utf8')).update(bytes).digest();
  return {
    sign: over,
    verify: (bytes, signature) => signature.length === 32 && timingSafeEqual(over(bytes), signature),
  };
}

function ed25519(key) {
  const decode = (text) => Buffer.from(text, 'base64');
  const der = (prefix, text, type) => ({ key: Buffer.concat([prefix, decode(text)]), format: 'der', type });
  return {
    sign: (bytes) => sign(null, bytes, createPrivateKey(der(PKCS8, key.seed, 'pkcs8'))),
    verify: (bytes, signature) => verify(null, bytes, createPublicKey(der(SPKI, key.public, 'spki')), signature),
  };
}

function peerKey(given) {
  if (typeof given === 'string') return hmac(given);
  return given.secret === undefined ? ed25519(given) : hmac(given.secret);
}

function canonical(topic, payload, properties, user, time, nonce) {
  const kind = user['mr-kind'] ?? '';
  const preamble = JSON.stringify([
    user['mr-v'] ?? '3',
    topic,
    REQUESTS.has(kind) ? (properties.responseTopic ?? '') : '',
    user['mr-src'] ?? '',
    kind,
    user['mr-path'] ?? '',
    user['mr-method'] ?? user['mr-event'] ?? '',
    properties.correlationData ? properties.correlationData.toString('utf8') : '',
    properties.contentType ?? '',
    ...['code', 'ver', 'ttl', 'idem', 'fence', 'deferred', 'outcome', 'seq', 'epoch'].map((name) => user[`mr-${name}`] ?? ''),
    time,
    nonce,
  ]);
  return Buffer.concat([Buffer.from(preamble, 'utf8'), payload]);
}

/** The keys of one peer. */
export class Keys {
  constructor(file) {
    const given = JSON.parse(readFileSync(file, 'utf8'));
    this.own = given.secret === undefined ? ed25519(given.ed25519) : hmac(given.secret);
    this.peers = given.peers && new Map(Object.entries(given.peers).map(([name, key]) => [name, peerKey(key)]));
    this.seen = new Set();
  }

  /** Marks a packet that is about to leave; `late` is how long ago it claims to be. */
  sign(topic, payload, properties, late = 0) {
    const user = properties.userProperties;
    const [time, nonce] = [Date.now() - late, randomBytes(16).toString('base64')];
    const signature = this.own.sign(canonical(topic, payload, properties, user, time, nonce));
    Object.assign(user, { 'mr-nonce': nonce, 'mr-ts': String(time), 'mr-sig': signature.toString('base64') });
  }

  /** Why a packet is not believed; nothing if it is. */
  doubt(topic, payload, properties, user) {
    if (!this.peers) return undefined;
    const { 'mr-sig': signature, 'mr-nonce': nonce, 'mr-ts': time } = user;
    if (!signature || !nonce) return 'unsigned';
    if ((user['mr-v'] ?? '3') !== '3') return 'layout';
    if (!(Math.abs(Date.now() - Number(time)) <= WINDOW) || this.seen.has(nonce)) return 'stale or replayed';
    const key = this.peers.get(user['mr-src']);
    const bytes = canonical(topic, payload, properties, user, Number(time), nonce);
    if (!key?.verify(bytes, Buffer.from(signature, 'base64'))) return 'bad signature';
    this.seen.add(nonce);
    return undefined;
  }
}

/** A key of nobody. */
export function stranger() {
  return hmac(randomBytes(24).toString('hex'));
}
