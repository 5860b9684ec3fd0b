// A caller that shares nothing with the crate. It takes one JSON line per wish on stdin and prints one JSON line per
// thing that happens. When stdin ends it waits for its open calls and leaves politely.
//
//   echo '{"id":1,"do":"call","peer":"bakery","path":"oven","method":"read"}' |
//     node tests/interop/caller.mjs --url mqtt://127.0.0.1:1883 --name hmi
//
// Over a hub (http://) `batch` sends several calls in one frame: {do: 'batch', calls: [{id, path, method, args}, …], peer}, and `hops`
// in a call's `user` says how far it has come already. Wishes: call, on, off, peers, announce (many retained presences at once), publish (a raw packet), vanish. A call can be
// bent: correlation, responseTopic, contentType (null leaves it out), hex (the body), user (further properties); with
// --sign, bend: unsigned, replayed, stale, future, truncated, re-signed, re-addressed, redirected.
// Answers: {id, kind, value | error, codec, source, …}; events: {event, path, peer, args, seq?, epoch?};
// presence: {presence: peer, state, shape?, retained}; {connected} and {closed} tell of the connection.
//
// Options: --url --name [--prefix] [--client-id] [--username --password] [--sign KEYFILE] [--no-presence] [--no-reconnect] [--watch]

import { randomUUID } from 'node:crypto';
import { HubWire } from './hub_wire.mjs';
import { JSON_TYPE, MSGPACK, Wire, listen, options, say, tag, untag } from './wire.mjs';

const given = options(['no-presence', 'no-reconnect', 'watch']);
const wire = given.url.startsWith('http') ? new HubWire(given) : new Wire(given);
const peers = new Map();
const open = new Map();
let idle = () => {};

wire.presence = (peer, state, shape, retained) => {
  if (state === 'online') peers.set(peer, shape ?? null);
  if (state === 'offline') peers.delete(peer);
  if (given.watch) say({ presence: peer, state, shape, retained });
};

wire.connected = () => say({ connected: true });
wire.closed = () => say({ closed: true });

function settle(correlation) {
  const entry = open.get(correlation);
  clearTimeout(entry?.timer);
  open.delete(correlation);
  if (open.size === 0) idle();
  return entry;
}

wire.frame = (frame) => {
  if (frame.kind === 'event') {
    const { 'mr-path': path, 'mr-event': event, 'mr-seq': seq, 'mr-epoch': epoch } = frame.user;
    say({ event, path, peer: frame.source, args: tag(frame.body), seq, epoch, codec: frame.type });
    return;
  }
  const correlation = frame.correlation?.toString('utf8');
  const entry = open.get(correlation);
  const about = { kind: frame.kind, codec: frame.type, source: frame.source, topic: frame.topic, empty: frame.empty };
  if (!entry) return say({ stray: correlation, ...about, value: tag(frame.body), code: frame.user['mr-code'] });
  if (frame.kind === 'error') {
    settle(correlation);
    return say({ id: entry.id, ...about, code: frame.user['mr-code'] ?? 'Exception', error: tag(frame.body) });
  }
  const deferred = 'mr-deferred' in frame.user;
  const outcome = frame.user['mr-outcome'];
  if (!deferred && outcome !== 'progress') settle(correlation);
  say({ id: entry.id, ...about, value: tag(frame.body), deferred: deferred || undefined, outcome });
};

async function request(asked, method, args, send = (topic, body, about) => wire.send(topic, body, about)) {
  const type = asked.codec === 'json' ? JSON_TYPE : MSGPACK;
  const raw = asked.hex === undefined ? undefined : Buffer.from(asked.hex, 'hex');
  const correlation = asked.correlation ?? randomUUID();
  const ttl = asked.ttl ?? 10000;
  const timer = setTimeout(() => {
    settle(correlation);
    say({ id: asked.id, kind: 'silence', after: ttl });
  }, ttl);
  open.set(correlation, { id: asked.id, timer });
  const kind = method === 'on' ? 'subscribe' : method === 'off' ? 'unsubscribe' : 'call';
  const user = {
    'mr-kind': kind,
    'mr-path': asked.path,
    'mr-method': method,
    'mr-ver': asked.version,
    'mr-ttl': String(ttl),
    'mr-idem': asked.idem,
    'mr-fence': asked.fence,
    ...asked.user,
  };
  const responseTopic = asked.responseTopic ?? wire.topic('rsp', given.name);
  const expiry = Math.max(1, Math.ceil(ttl / 1000));
  const named = asked.contentType === undefined ? type : (asked.contentType ?? undefined);
  const about = { type, named, correlation, responseTopic, expiry, user, raw, bend: asked.bend };
  await send(wire.topic('req', asked.peer), args, about);
}

/** Several calls in one frame. */
async function batch({ peer, calls }) {
  const members = [];
  const keep = (_topic, body, about) => members.push({ body, about });
  for (const call of calls) await request({ ...call, peer }, call.method, untag(call.args ?? []), keep);
  await wire.batch(wire.topic('req', peer), members);
}

/** Many retained presences, in flight all together. */
async function announceMany({ id, count, stem }) {
  const waiting = [];
  for (let index = 0; index < count; index += 1) {
    const topic = wire.topic('presence', `${stem}${String(index).padStart(5, '0')}`);
    const properties = { userProperties: { shape: 'fedcba9876543210' } };
    waiting.push(wire.client.publishAsync(topic, 'online', { qos: 1, retain: true, properties }));
  }
  await Promise.all(waiting);
  say({ id, announced: count });
}

async function publish({ id, topic, hex, properties, qos, retain }) {
  const ready = { ...properties };
  if (ready.correlationData !== undefined) ready.correlationData = Buffer.from(ready.correlationData);
  await wire.client.publishAsync(topic, Buffer.from(hex ?? '', 'hex'), { qos: qos ?? 1, retain, properties: ready });
  say({ id, published: topic });
}

const wishes = {
  call: (asked) => request(asked, asked.method, untag(asked.args ?? [])),
  on: (asked) => request(asked, 'on', asked.projection ? [asked.event, asked.projection] : [asked.event]),
  off: (asked) => request(asked, 'off', [asked.event]),
  peers: ({ id }) => say({ id, peers: Object.fromEntries([...peers].sort()) }),
  batch,
  announce: announceMany,
  publish,
  vanish: () => wire.vanish(),
};

await wire.join(['rsp', 'evt']);
say({ ready: given.name });
await listen(
  (asked) => {
    const wish = wishes[asked.do];
    if (!wish) throw new Error(`no wish '${asked.do}'`);
    return wish(asked);
  },
  async () => {
    if (open.size > 0) await new Promise((resolve) => (idle = resolve));
    await wire.leave();
    process.exit(0);
  },
);
