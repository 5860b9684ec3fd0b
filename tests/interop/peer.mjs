// A responder that shares nothing with the crate: namespace `scale` (queries, commands, an event), component `tank`
// ($snapshot, two setters), introspection. It prints {"ran": …} for every command it really executes, so that a test
// can tell what happened in the plant from what was said about it.
//
// Options: --url --name [--prefix] [--username --password] [--sign KEYFILE]; over a hub (http://) [--token]
//   --json              answers and emits JSON, whatever it was asked in
//   --no-introspection  a minimal device: no msgrpc namespace, no shape
//   misbehaviour, on `scale` alone, introspection stays honest:
//   --wrong-source      replies name another peer as their source
//   --double-reply      replies twice, the second time with another value
//   --late-reply        withholds a reply until the next request has arrived, then sends both in order
//   --other-correlation replies with a correlation nobody chose
//   --silent            runs and says nothing
//
// Wishes on stdin: {"do":"release"} lets every held call answer; {"do":"emit","n":3}; {"do":"shape"} announces
// another shape; {"do":"vanish"} drops the connection; {"do":"leave"} goes politely.

import { randomBytes, randomUUID } from 'node:crypto';
import { JSON_TYPE, MSGPACK, Wire, listen, options, say, tag } from './wire.mjs';
import { HubWire } from './hub_wire.mjs';
import { describe } from './contract.mjs';

const given = options([
  'json',
  'no-introspection',
  'wrong-source',
  'double-reply',
  'late-reply',
  'other-correlation',
  'silent',
  'no-delay',
]);
const wire = given.url.startsWith('http') ? new HubWire(given) : new Wire(given);
const epoch = randomBytes(4).toString('hex');
const since = Date.now();
const subscribers = new Map();
const answered = new Map();
const running = new Set();
const held = [];
const withheld = [];
let weighed = 0;

class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

const tank = {
  epoch: randomUUID(),
  revision: 0,
  props: { unit: 'l', capacity: 500 },
  state: { level: 120, setpoint: 200, mode: 'idle', zones: { left: { setpoint: 10 } } },
};

function snapshot() {
  return { ...tank, authority: { generation: 0 } };
}

async function emit(path, event, args, stamp, only) {
  const to = only ? [only] : [...(subscribers.get(`${path} ${event}`) ?? [])];
  const user = { 'mr-kind': 'event', 'mr-path': path, 'mr-event': event, ...stamp };
  const type = given.json ? JSON_TYPE : MSGPACK;
  for (const peer of to) await wire.send(wire.topic('evt', peer), args, { type, user });
}

async function commit(change) {
  change(tank.state);
  tank.revision += 1;
  await emit('tank', '$snapshot', [snapshot()], {});
}

async function weigh(count) {
  for (let index = 0; index < count; index += 1) {
    weighed += 1;
    await emit('scale', 'weight', [weighed * 10, 'g'], { 'mr-seq': String(weighed), 'mr-epoch': epoch });
  }
  return weighed;
}

const scale = {
  read: () => ({ grams: 1250, stable: true, at: new Date(1785187832623) }),
  add: (a, b) => a + b,
  echo: (x) => x,
  fail: (code) => {
    throw new Refusal(code, `asked to fail with ${code}`);
  },
  slow: (ms) => new Promise((resolve) => setTimeout(() => resolve(ms), ms)),
  hold: (x) => new Promise((resolve) => held.push(() => resolve(x))),
  tare: () => 'tared',
  void: () => undefined,
  emit: (n) => weigh(n),
};

const tankMethods = {
  // Clamps rather than refuses: what was written and what the plant agreed to may differ.
  setSetpoint: async (value) => {
    await commit((state) => (state.setpoint = Math.min(value, tank.props.capacity)));
  },
  setMode: async (mode) => {
    if (!['idle', 'filling'].includes(mode)) throw new Refusal('InvalidParams', `no mode '${mode}'`);
    await commit((state) => (state.mode = mode));
    return mode;
  },
};

const introspection = {
  describe: () => describe(given.name, (path, event) => subscribers.get(`${path} ${event}`)?.size ?? 0),
  eventCursor: (namespace, event) =>
    namespace === 'scale' && event === 'weight' ? { epoch, seq: weighed, since } : { epoch, seq: null },
};

const exposed = { scale, tank: tankMethods, ...(given['no-introspection'] ? {} : { msgrpc: introspection }) };
const emitters = new Set(['scale', 'tank']);

async function subscribe(frame, path, args) {
  const [event] = args;
  if (typeof event !== 'string' || event === '') throw new Refusal('InvalidParams', 'an event is a non-empty text');
  if (event === '$snapshot' && path !== 'tank') {
    throw new Refusal('ClassNotFound', `${path} is not an observable component`);
  }
  const key = `${path} ${event}`;
  const there = subscribers.get(key)?.has(frame.source);
  subscribers.set(key, (subscribers.get(key) ?? new Set()).add(frame.source));
  say({ subscribed: frame.source, path, event });
  if (event === '$snapshot') await emit(path, event, [snapshot()], {}, frame.source);
  return there ? 'ok - already exists' : 'ok';
}

function unsubscribe(frame, path, args) {
  const was = subscribers.get(`${path} ${args[0]}`)?.delete(frame.source);
  say({ unsubscribed: frame.source, path, event: args[0] });
  return was ? 'ok' : 'ok - was not subscribed';
}

async function run(frame, path, method, args) {
  const namespace = Object.hasOwn(exposed, path) ? exposed[path] : undefined;
  if (!namespace) throw new Refusal('ClassNotFound', `${path}.${method} is not exposed`);
  if (emitters.has(path) && method === 'on') return subscribe(frame, path, args);
  if (emitters.has(path) && (method === 'off' || method === 'removeListener')) return unsubscribe(frame, path, args);
  if (!Object.hasOwn(namespace, method)) throw new Refusal('MethodNotFound', `${path}.${method} is not exposed`);
  // Owner generations are not recorded here, so a fenced call cannot be honoured (W-061).
  if (frame.user['mr-fence'] !== undefined) throw new Refusal('OwnershipChanged', 'no owner is recorded here');
  const ttl = frame.user['mr-ttl'] === undefined ? undefined : Number(frame.user['mr-ttl']);
  const { 'mr-idem': idem, 'mr-ver': version } = frame.user;
  if (path !== 'msgrpc') {
    say({ ran: method, path, args: tag(args), source: frame.source, codec: frame.type, ttl, expiry: frame.expiry, idem, version });
  }
  return namespace[method](...args);
}

/** What goes back for a request: kind, code and body. */
async function outcome(frame, path, method, args) {
  try {
    return { kind: 'result', body: await run(frame, path, method, args) };
  } catch (error) {
    const body = { name: error instanceof Refusal ? 'RpcError' : error.name, message: error.message };
    return { kind: 'error', code: error.code ?? 'Exception', body };
  }
}

function reply(frame, { kind, code, body }, twist = {}) {
  const type = given.json ? JSON_TYPE : (frame.type ?? MSGPACK);
  const user = { 'mr-kind': kind, 'mr-code': code, ...twist.user };
  const topic = frame.responseTopic ?? wire.topic('rsp', frame.source);
  const correlation = twist.correlation ?? frame.correlation;
  return wire.send(topic, twist.body ?? body, { type, correlation, user });
}

async function answer(frame, path, result) {
  if (path !== 'scale') return reply(frame, result);
  if (given.silent) return undefined;
  if (given['wrong-source']) return reply(frame, result, { user: { 'mr-src': `${given.name}-impostor` } });
  if (given['other-correlation']) return reply(frame, result, { correlation: randomUUID() });
  await reply(frame, result);
  if (given['double-reply']) await reply(frame, result, { body: 'the second answer' });
  return undefined;
}

wire.frame = async (frame) => {
  const { 'mr-path': path, 'mr-method': method } = frame.user;
  if (!['call', 'subscribe', 'unsubscribe'].includes(frame.kind)) return say({ refused: `kind ${frame.kind}` });
  if (!frame.correlation?.length || !path || !method) return say({ refused: 'incomplete request' });
  if (frame.responseTopic !== undefined && !frame.responseTopic.startsWith(wire.topic('rsp', ''))) {
    return say({ refused: `response topic ${frame.responseTopic}` });
  }
  const args = Array.isArray(frame.body) ? frame.body : frame.body == null ? [] : [frame.body];
  const key = `${frame.source} ${frame.correlation.toString('hex')}`;
  if (answered.has(key)) return reply(frame, answered.get(key));
  if (running.has(key)) return undefined;
  running.add(key);
  if (path === 'scale') for (const late of withheld.splice(0)) await late();
  const result = await outcome(frame, path, method, args);
  running.delete(key);
  answered.set(key, result);
  if (answered.size > 1000) answered.delete(answered.keys().next().value);
  if (path === 'scale' && given['late-reply']) {
    withheld.push(() => answer(frame, path, result));
    given['late-reply'] = false;
    return say({ withheld: method });
  }
  return answer(frame, path, result);
};

wire.presence = (peer, state) => {
  if (state !== 'offline') return;
  for (const [key, names] of subscribers) if (names.delete(peer)) say({ dropped: peer, key });
};

async function leave() {
  await wire.leave();
  process.exit(0);
}

const wishes = {
  release: () => held.splice(0).forEach((go) => go()),
  emit: ({ n }) => weigh(n),
  shape: ({ shape }) => wire.announce('online', shape),
  vanish: () => wire.vanish(),
  leave,
};

await wire.join(['req'], given['no-introspection'] ? undefined : '0123456789abcdef');
say({ ready: given.name });
await listen((asked) => wishes[asked.do](asked), leave);
