// What peer.mjs says about itself when asked to describe itself.

const number = { kind: 'number' };
const text = { kind: 'string' };
const any = { kind: 'any' };

const scaleMethods = [
  { name: 'add', params: [number, number], paramNames: ['a', 'b'], returns: number, semantics: 'query', effect: 'observe' },
  { name: 'echo', params: [any], paramNames: ['x'], returns: any, semantics: 'query', effect: 'observe' },
  { name: 'emit', params: [number], paramNames: ['n'], returns: number, semantics: 'non-repeatable-command', effect: 'operate' },
  { name: 'fail', params: [text], paramNames: ['code'], semantics: 'idempotent-command', effect: 'operate' },
  { name: 'hold', params: [any], paramNames: ['x'], returns: any, semantics: 'non-repeatable-command', effect: 'operate' },
  { name: 'read', params: [], paramNames: [], returns: { kind: 'ref', name: 'Reading' }, semantics: 'query', effect: 'observe' },
  { name: 'slow', params: [number], paramNames: ['ms'], returns: number, semantics: 'non-repeatable-command', effect: 'operate' },
  { name: 'tare', params: [], paramNames: [], returns: text, semantics: 'non-repeatable-command', effect: 'operate' },
  { name: 'void', params: [], paramNames: [], semantics: 'idempotent-command', effect: 'operate' },
];

const mode = { kind: 'union', options: ['idle', 'filling'].map((value) => ({ kind: 'literal', value })) };

const tankMethods = [
  { name: 'setMode', params: [mode], paramNames: ['mode'], returns: text, semantics: 'idempotent-command', effect: 'operate', sets: 'mode' },
  { name: 'setSetpoint', params: [number], paramNames: ['value'], semantics: 'idempotent-command', effect: 'operate', sets: 'setpoint' },
];

function object(fields) {
  return { kind: 'object', fields: Object.fromEntries(Object.entries(fields).map(([key, type]) => [key, { type }])) };
}

const component = {
  props: object({ unit: text, capacity: number }),
  state: object({ level: number, setpoint: number, mode, zones: object({ left: object({ setpoint: number }) }) }),
};

const msgrpcMethods = [
  { name: 'describe', params: [], returns: any, semantics: 'query', effect: 'observe' },
  { name: 'eventCursor', params: [text, text], paramNames: ['namespace', 'event'], returns: any, semantics: 'query', effect: 'observe' },
];

/** The description of the peer `name`; `watching(path, event)` counts who is subscribed. */
export function describe(name, watching) {
  const weight = { name: 'weight', params: [number, text], subscribers: watching('scale', 'weight') };
  return {
    name,
    version: '3',
    validating: false,
    namespaces: [
      { name: 'msgrpc', className: 'Introspection', created: false, emitter: false, methods: msgrpcMethods, events: [] },
      {
        name: 'scale',
        version: '3',
        className: 'Scale',
        created: false,
        emitter: true,
        capabilities: ['@plantbridge/interop/Scale'],
        methods: scaleMethods,
        events: [weight],
      },
      {
        name: 'tank',
        version: '3',
        className: 'Tank',
        created: false,
        emitter: true,
        component: { ...component, subscribers: watching('tank', '$snapshot') },
        methods: tankMethods,
        events: [],
      },
    ],
    types: { Reading: object({ grams: number, stable: { kind: 'boolean' }, at: { kind: 'date' } }) },
  };
}
