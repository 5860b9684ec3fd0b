// One account at a broker, over TLS, with nothing of a peer behind it: what it may say and what it hears.
//
//   --url mqtts://… --ca FILE [--user NAME --password-file FILE]
//
// JSON lines in: {"say": TOPIC, "text": …}, answered with whether the broker took it (a presence is retained, as peers have it);
// {"hear": FILTER}. Each message that arrives is a line {"heard": TOPIC, "text": …}.

import { readFileSync } from 'node:fs';
import { mqtt, listen, say } from './wire.mjs';

const words = process.argv.slice(2);
const given = {};
while (words.length > 0) given[words.shift().slice(2)] = words.shift();

const client = mqtt.connect(given.url, {
  protocolVersion: 5,
  reconnectPeriod: 0,
  ca: given.ca && readFileSync(given.ca),
  username: given.user,
  password: given['password-file'] && readFileSync(given['password-file'], 'utf8').trim(),
});
client.on('connect', () => say({ in: true }));
client.on('error', (error) => {
  say({ in: false, why: error.message });
  client.end(true, () => process.exit(0));
});
client.on('message', (topic, text) => say({ heard: topic, text: text.toString() }));

await listen(
  async (asked) => {
    if (asked.hear) {
      await client.subscribeAsync(asked.hear, { qos: 1 });
      say({ hears: asked.hear });
      return;
    }
    const retain = asked.say.includes('/presence/');
    const taken = await client.publishAsync(asked.say, asked.text, { qos: 1, retain }).then(
      () => true,
      () => false,
    );
    say({ said: asked.say, taken });
  },
  () => client.endAsync(),
);
