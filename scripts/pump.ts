// A pump that is not there: it serves `pump` with read, start, stop and setSpeed, emits `changed`, and says so. Other peers meet
// it under the name that start_script gave it.

import { Peer, Refusal } from './lib/wire.mjs';

interface Pump {
  running: boolean;
  /** Revolutions a minute that were asked for. */
  speed: number;
  /** Revolutions a minute there are. */
  actual: number;
  bar: number;
}

const FASTEST = 3000;
const pump: Pump = { running: false, speed: 1500, actual: 0, bar: 0 };
const peer = new Peer();

async function changed(): Promise<Pump> {
  console.log(JSON.stringify(pump));
  await peer.emit('pump', 'changed', pump);
  return pump;
}

peer.serve('pump', {
  read: () => pump,
  start: () => {
    pump.running = true;
    return changed();
  },
  stop: () => {
    pump.running = false;
    return changed();
  },
  setSpeed: (speed: unknown) => {
    if (typeof speed !== 'number' || !(speed >= 0 && speed <= FASTEST)) {
      throw new Refusal('InvalidParams', `argument 0: a speed is a number from 0 to ${FASTEST}`);
    }
    pump.speed = speed;
    return changed();
  },
});

// It takes its time: a tenth of the way ten times a second.
const clock = setInterval(() => {
  const wanted = pump.running ? pump.speed : 0;
  pump.actual = Math.abs(wanted - pump.actual) < 1 ? wanted : pump.actual + (wanted - pump.actual) / 10;
  pump.bar = Number(((pump.actual / FASTEST) ** 2 * 10).toFixed(3));
}, 100);

async function leave(): Promise<void> {
  clearInterval(clock);
  await peer.leave();
  console.log('left');
  process.exit(0);
}

process.on('SIGTERM', leave);
process.on('SIGINT', leave);
await peer.join();
console.log(`serving as ${peer.name}`);
