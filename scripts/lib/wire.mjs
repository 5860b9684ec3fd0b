// A peer over the plain MQTT client: enough of the wire (frame 3, both codecs) to serve methods, emit events and call others.
// Everything it is told of the network is in its environment; nothing is ever sent twice.

import { randomUUID } from 'node:crypto';
import { decode, encode } from '@msgpack/msgpack';
import mqtt from 'mqtt';

const JSON_TYPE = 'application/json';
const MSGPACK = 'application/msgpack';

/** What a method throws to choose the code that its caller sees. */
export class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

export class Peer {
  #pending = new Map();
  #services = new Map();
  #listeners = new Map();

  constructor(environment = process.env) {
    this.name = environment.SOURCE_RPC_NAME;
    this.prefix = environment.SOURCE_RPC_PREFIX ?? 'msgrpc/v2';
    this.url = environment.SOURCE_RPC_BROKER;
    if (!this.url || !this.name) throw new Error('SOURCE_RPC_BROKER and SOURCE_RPC_NAME say where and who; start_script sets them');
  }

  /** Joins: everything is served before it is announced. */
  async join() {
    const presence = this.#topic('presence', this.name);
    this.client = await mqtt.connectAsync(this.url, {
      protocolVersion: 5,
      clientId: `msgrpc-${this.name}`,
      clean: true,
      properties: { sessionExpiryInterval: 0 },
      will: { topic: presence, payload: Buffer.from('offline'), qos: 1, retain: true },
    });
    this.client.on('message', (topic, payload, packet) => this.#take(payload, packet));
    const announce = async () => {
      await this.client.subscribeAsync([this.#topic('req', this.name), this.#topic('rsp', this.name)], { qos: 1 });
      await this.client.publishAsync(presence, 'online', { qos: 1, retain: true });
    };
    // After an outage the broker knows nothing of us any more, and whoever listened has to ask again.
    this.client.on('connect', () => {
      this.#listeners.clear();
      announce().catch((error) => console.error(`joining again: ${error.message}`));
    });
    await announce();
  }

  /** Says goodbye, so that nobody takes us for a peer that died. */
  async leave() {
    const presence = this.#topic('presence', this.name);
    await this.client.publishAsync(presence, 'offline', { qos: 1, retain: true });
    await this.client.publishAsync(presence, '', { qos: 1, retain: true });
    await this.client.endAsync();
  }

  /** Serves methods under a path: functions of the arguments. */
  serve(path, methods) {
    this.#services.set(path, methods);
  }

  /** Tells whoever listens. */
  async emit(path, event, ...args) {
    const user = { 'mr-kind': 'event', 'mr-path': path, 'mr-event': event };
    for (const listener of this.#listeners.get(`${path} ${event}`) ?? []) {
      await this.#send(this.#topic('evt', listener), args, user);
    }
  }

  /** Calls a method once. No answer means that nobody knows whether it ran: look before you act again. */
  call(peer, path, method, args = [], ttl = 5000) {
    const correlation = randomUUID();
    return new Promise((resolve, reject) => {
      const settle = (how, value) => {
        clearTimeout(timer);
        this.#pending.delete(correlation);
        how(value);
      };
      const silent = () => settle(reject, new Refusal('UnknownOutcome', `${peer}.${path}.${method} did not answer; it may have run`));
      const timer = setTimeout(silent, ttl);
      this.#pending.set(correlation, (code, body) => {
        if (code === undefined) return settle(resolve, body);
        settle(reject, new Refusal(code, `${peer}.${path}.${method}: ${code}: ${body?.message ?? body}`));
      });
      const user = { 'mr-kind': 'call', 'mr-path': path, 'mr-method': method, 'mr-ttl': String(ttl) };
      const more = {
        correlationData: Buffer.from(correlation),
        responseTopic: this.#topic('rsp', this.name),
        messageExpiryInterval: Math.ceil(ttl / 1000),
      };
      this.#send(this.#topic('req', peer), args, user, more).catch((error) => settle(reject, error));
    });
  }

  #topic(kind, name) {
    return `${this.prefix}/${kind}/${name}`;
  }

  async #send(topic, body, user, more = {}, contentType = JSON_TYPE) {
    const userProperties = { 'mr-v': '3', 'mr-src': this.name, ...user };
    const isText = contentType === JSON_TYPE;
    const properties = { payloadFormatIndicator: isText, contentType, userProperties, ...more };
    const payload = isText ? JSON.stringify(body ?? null) : Buffer.from(encode(body ?? null));
    await this.client.publishAsync(topic, payload, { qos: 1, properties });
  }

  async #take(payload, { properties = {} }) {
    const user = properties.userProperties ?? {};
    const correlation = properties.correlationData?.toString();
    const kind = user['mr-kind'];
    const type = properties.contentType || MSGPACK;
    let body;
    try {
      if (type !== JSON_TYPE && type !== MSGPACK) throw new Error(`nobody here speaks ${type}`);
      if (payload.length > 0) body = type === JSON_TYPE ? JSON.parse(payload.toString()) : decode(payload);
    } catch (error) {
      return console.error(`a frame of ${user['mr-src']} is not read: ${error.message}`);
    }
    if (kind === 'result' || kind === 'error') {
      return this.#pending.get(correlation)?.(kind === 'error' ? (user['mr-code'] ?? 'Exception') : undefined, body);
    }
    if (!user['mr-src'] || !correlation || !['call', 'subscribe', 'unsubscribe'].includes(kind)) return;
    const replyTo = properties.responseTopic ?? this.#topic('rsp', user['mr-src']);
    if (!replyTo.startsWith(`${this.prefix}/rsp/`)) return;
    const about = { correlationData: properties.correlationData };
    const answer = (kind, body, more = {}) => this.#send(replyTo, body, { 'mr-kind': kind, ...more }, about, type);
    try {
      await answer('result', await this.#run(user, Array.isArray(body) ? body : []));
    } catch (error) {
      await answer('error', { name: 'Error', message: error.message }, { 'mr-code': error.code ?? 'Exception' });
    }
  }

  #run({ 'mr-path': path, 'mr-method': method, 'mr-src': caller }, args) {
    const methods = this.#services.get(path);
    if (!methods) throw new Refusal('ClassNotFound', `${path}.${method} is not exposed`);
    const listeners = `${path} ${args[0]}`;
    if (method === 'on') {
      this.#listeners.set(listeners, (this.#listeners.get(listeners) ?? new Set()).add(caller));
      return 'ok';
    }
    if (method === 'off') return this.#listeners.get(listeners)?.delete(caller) ? 'ok' : 'ok - was not subscribed';
    if (!Object.hasOwn(methods, method)) throw new Refusal('MethodNotFound', `${path}.${method} is not exposed`);
    return methods[method](...args);
  }
}
