// A start-up sequence: the bakery's oven is closed, heated and watched until it is warm. Each command is sent once; one that is
// not answered ends the sequence, because nobody knows whether it ran.

import { Peer } from './lib/wire.mjs';

const BAKERY = 'bakery';
const WARM = 40;
const peer = new Peer();

async function step(what, method, ...args) {
  const result = await peer.call(BAKERY, 'oven', method, args);
  console.log(`${what}: ${JSON.stringify(result)}`);
  return result;
}

async function sequence() {
  const { celsius, mode } = await peer.call(BAKERY, 'oven', 'read');
  console.log(`the oven has ${celsius} degrees and is ${mode}`);
  await step('door', 'setDoor', 'closed');
  await step('setpoint', 'setSetpoint', 180);
  await step('mode', 'setMode', 'heating');
  for (;;) {
    const { celsius } = await peer.call(BAKERY, 'oven', 'read');
    if (celsius >= WARM) return console.log(`warm: ${celsius} degrees`);
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

await peer.join();
try {
  await sequence();
} catch (error) {
  console.error(`stopped: ${error.message}`);
  process.exitCode = 1;
}
await peer.leave();
