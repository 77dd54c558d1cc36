// Norms, activations, the feed-forward and the output layer against their definitions, on random numbers.
import { describe, expect, it } from 'vitest';
import type { Config, Manifest } from '../../src/page/data/manifest';
import type { Source } from '../../src/page/data/source';
import { row, type Grid, type Tensor } from '../../src/page/data/tensor';
import { Exploration } from '../../src/page/data/trace';
import { logSumExp, mean, smoothedLoss, softmaxAtTemperature } from '../../src/page/maths/output';
import { dot, entropy, largestDifference, norm, softmax } from '../../src/page/maths/recompute';
import {
  activated,
  cellAfter,
  contributions,
  erf,
  hiddenOf,
  projected,
  scaledAndShifted,
  standardised,
} from '../../src/page/maths/sublayers';
import { candidatesAt, recomputeLogits, recomputeSoftmax, type Output } from '../../src/page/screens/softmax/output';
import {
  neuronsOf,
  inactiveNeurons,
  recompute,
  sorted,
  type FeedForwardTrace,
} from '../../src/page/screens/sublayers/feedForward';
import { loadLayer, residualRows, type ResidualBlock } from '../../src/page/screens/sublayers/layer';

let seed = 7;
const chance = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
const some = (rows: number, cols: number): Grid => ({
  rows,
  cols,
  values: Float32Array.from({ length: rows * cols }, () => 4 * chance() - 2),
});
const one = (length: number) => some(1, length).values;
const config = (options: Partial<Config>) =>
  ({ norm: 'layer', norm_first: false, norm_eps: 1e-5, ...options }) as Config;

describe('a norm', () => {
  it('has mean 0 and mean square 1, and is invariant to shift and scale', () => {
    for (let trial = 0; trial < 30; trial++) {
      const x = one(2 + Math.floor(30 * chance()));
      const { standard } = standardised(x, 'layer', 0);
      expect(mean(standard)).toBeCloseTo(0, 10);
      expect(norm(standard) ** 2 / x.length).toBeCloseTo(1, 10);
      expect(
        largestDifference(
          standardised(
            Array.from(x, (y) => 3 * y + 5),
            'layer',
            0,
          ).standard,
          standard,
        ),
      ).toBeLessThan(1e-9);
    }
  });

  it('with the root mean square keeps directions', () => {
    const x = one(9);
    const { mean: off, sigma, standard } = standardised(x, 'rms', 0.25);
    expect(off).toBe(0);
    expect(sigma ** 2).toBeCloseTo(dot(x, x) / 9 + 0.25, 12);
    expect(
      largestDifference(
        standard.map((y) => y * sigma),
        x,
      ),
    ).toBeLessThan(1e-12);
  });

  it('adds ε under the root', () => {
    expect(standardised([1, 1, 1], 'layer', 0.04).sigma).toBeCloseTo(0.2, 12);
    expect([...scaledAndShifted([1, 2], [3, 4], [5, 6])]).toEqual([8, 14]);
    expect([...scaledAndShifted([1, 2], [3, 4], null)]).toEqual([3, 8]);
  });
});

describe('activations', () => {
  it('use the error function: the integral of 2/√π exp(-t²)', () => {
    for (const x of [-3, -0.7, 0, 0.1, 0.5, 1, 2, 4]) {
      const steps = 4000;
      let area = 0;
      for (let i = 0; i < steps; i++) area += Math.exp(-((((i + 0.5) / steps) * x) ** 2));
      expect(erf(x)).toBeCloseTo(((2 / Math.sqrt(Math.PI)) * area * x) / steps, 6);
    }
  });

  it('pass large numbers and stop negative ones', () => {
    for (const kind of ['relu', 'gelu', 'gelu-tanh', 'silu']) {
      const [far, low, nought] = activated([30, -30, 0], kind);
      expect(far).toBeCloseTo(30, 6);
      expect(low).toBeCloseTo(0, 6);
      expect(nought).toBeCloseTo(0, 12);
    }
    expect(() => activated([1], 'swiglu')).toThrow('swiglu');
  });

  it('gelu and its tanh approximation nearly agree', () => {
    const x = one(60);
    expect(largestDifference(activated(x, 'gelu'), activated(x, 'gelu-tanh'))).toBeLessThan(1e-3);
  });
});

describe('a feed-forward', () => {
  const [D, F, T] = [5, 12, 3];
  it.each([
    [false, 'relu'],
    [true, 'silu'],
    [true, 'relu'],
    [false, 'gelu'],
  ])('gated %s, %s, is recomputed', (gated, activation) => {
    const linear = (rows: number, cols: number) => ({ weight: some(rows, cols), bias: one(rows) });
    const matrices = { up: linear(F, D), gate: gated ? linear(F, D) : null, down: linear(D, F), activation };
    const x = some(T, D);
    const rows = (width: number, of: (t: number) => Float64Array): Grid => {
      const values = new Float32Array(T * width);
      for (let t = 0; t < T; t++) values.set(of(t), t * width);
      return { rows: T, cols: width, values };
    };
    const hidden = rows(F, (t) => hiddenOf(row(x, t), matrices));
    const out = rows(D, (t) => projected(row(hidden, t), matrices.down.weight, matrices.down.bias));
    const feed: FeedForwardTrace = { name: 'f', x, hidden, out, pictures: [] };
    for (let t = 0; t < T; t++) {
      expect(recompute(feed, matrices, t)).toBeLessThan(1e-5);
      const neurons = neuronsOf(feed, matrices, t);
      const along = dot(matrices.down.bias, row(out, t)) / dot(row(out, t), row(out, t));
      expect(neurons.reduce((sum, neuron) => sum + (neuron.share ?? 0), along)).toBeCloseTo(1, 4);
      const [first, second] = sorted(neurons, 'length');
      expect(first?.length).toBeGreaterThanOrEqual(second?.length ?? Infinity);
      expect(sorted(neurons, 'n').map((neuron) => neuron.n)).toEqual([...Array(F).keys()]);
      for (const { n, h, length } of neurons) {
        const column = Array.from({ length: D }, (_, d) => row(matrices.down.weight, d)[n] as number);
        expect(length).toBeCloseTo(norm(column.map((w) => w * h)), 5);
      }
    }
  });

  it('without its matrices is sorted by the size of h', () => {
    const feed: FeedForwardTrace = {
      name: 'f',
      x: some(1, 2),
      hidden: { rows: 1, cols: 3, values: new Float32Array([1, -5, 2]) },
      out: some(1, 2),
      pictures: [],
    };
    expect(sorted(neuronsOf(feed, null, 0), 'length').map((neuron) => neuron.n)).toEqual([1, 2, 0]);
  });

  it('counts inactive neurons', () => {
    expect(inactiveNeurons([0, 2, 0, 0.001], 'relu')).toBe(2);
    expect(inactiveNeurons([0, 2, 0, 0.001], 'gelu')).toBe(3);
    expect(contributions([0, 1], some(2, 2), [0, 0]).shares[0]).toBe(0);
  });
});

it('a recurrent unit keeps f of the old cell, and takes 1 - f of the candidate', () => {
  expect([...cellAfter([4, 4], [1, 0.25], [8, 8])]).toEqual([4, 7]);
  expect([...cellAfter(null, [1, 0.25], [8, 8])]).toEqual([0, 6]);
});

describe('the residual connection of a sub-layer', () => {
  const D = 6;
  const made = (first: boolean): ResidualBlock => {
    const [x, out, gamma, beta] = [some(1, D), some(1, D), one(D), one(D)];
    const sum = { rows: 1, cols: D, values: x.values.map((v, i) => v + (out.values[i] as number)) };
    const { standard } = standardised(first ? x.values : sum.values, 'layer', 1e-5);
    const result = { rows: 1, cols: D, values: Float32Array.from(scaledAndShifted(standard, gamma, beta)) };
    return { part: 'feed_forward', name: 'f', x, out, sum, norm: { gamma, beta, result } };
  };

  it('has its rows in the order of the model', () => {
    const ids = (first: boolean) =>
      residualRows(made(first), 0, config({ norm_first: first })).rows.map((line) => line.id);
    expect(ids(false)).toEqual(['x', 'out', 'sum', 'standard', 'gamma', 'beta', 'norm']);
    expect(ids(true)).toEqual(['x', 'standard', 'gamma', 'beta', 'norm', 'out', 'sum']);
  });

  it('is recomputed, but not in the wrong order', () => {
    for (const first of [false, true]) {
      expect(residualRows(made(first), 0, config({ norm_first: first })).difference).toBeLessThan(1e-5);
      expect(residualRows(made(first), 0, config({ norm_first: !first })).difference).toBeGreaterThan(1e-3);
    }
  });

  it.each([
    [true, 'residual'],
    [false, 'output'],
  ])('norm first %s: a sub-layer gets the %s of the one before', async (first, goesOn) => {
    const requested: string[] = [];
    const names = [
      'encoder.input',
      'encoder.layers.*.hidden',
      ...['self_attention', 'feed_forward'].flatMap((part) =>
        ['.output', '_norm.output', '_norm.residual'].map((end) => `encoder.layers.*.${part}${end}`),
      ),
    ];
    const source: Source = {
      live: false,
      tree: () => Promise.reject(new Error('no tree')),
      tensor: async (name) => (requested.push(name), { values: one(4), shape: [2, 2] }),
      weight: async () => null,
    };
    const manifest = {
      tensors: names.map((name) => ({ name, layers: name.includes('*') ? 2 : null, shape: [2, 2] })),
      parameters: [],
      shared: {},
      config: config({ norm_first: first }),
    };
    const exploration = new Exploration(manifest as unknown as Manifest, source);
    const layer = await loadLayer(exploration, { stack: 'encoder', layer: 1 });
    expect(layer.parts.map((part) => part.part)).toEqual(['self_attention', 'feed_forward']);
    expect(layer.parts[0]?.x.values).toBe((await exploration.tensor('encoder.layers.0.hidden')).values);
    expect(layer.parts[1]?.x.values).toBe(
      (await exploration.tensor(`encoder.layers.1.self_attention_norm.${goesOn}`)).values,
    );
    expect(layer.last).toBeNull();
    expect(new Set(requested).size).toBe(requested.length); // each is fetched once
  });
});

describe('the output', () => {
  const [V, D, n] = [40, 6, 10];
  const [matrix, bias, hidden] = [some(V, D), one(V), some(1, D)];
  const all = Float32Array.from(projected(hidden.values, matrix, bias));
  const order = [...all.keys()].sort((a, b) => (all[b] as number) - (all[a] as number));
  const grid = (values: Float32Array): Grid => ({ rows: 1, cols: values.length, values });
  const output = (targetId: number): Output => ({
    ids: grid(Float32Array.from(order.slice(0, n))),
    logits: grid(Float32Array.from(order.slice(0, n), (id) => all[id] as number)),
    logNormaliser: Float32Array.of(logSumExp(all)),
    entropy: Float32Array.of(entropy(softmax(all))),
    logProbability: Float32Array.of((all[targetId] as number) - logSumExp(all)),
    meanLogit: Float32Array.of(mean(all)),
    hidden,
  });

  it('is recomputed, with the target token among the most likely or not', () => {
    for (const targetId of [order[3] as number, order[30] as number]) {
      const found = candidatesAt(output(targetId), 0, targetId);
      expect(found.length).toBe(targetId === order[3] ? n : n + 1);
      expect(found.filter((candidate) => candidate.isTarget).map((candidate) => candidate.id)).toEqual([targetId]);
      const rows = new Map(found.map(({ id }) => [id, { weight: row(matrix, id), bias: bias[id] as number }]));
      expect(recomputeLogits(hidden.values, rows, found)).toBeLessThan(1e-5);
      expect(recomputeSoftmax(output(targetId), 0, all, targetId)).toBeLessThan(1e-5);
      const p = softmax(all);
      for (const candidate of found) expect(candidate.p).toBeCloseTo(p[candidate.id] as number, 6);
    }
    expect(recomputeLogits(hidden.values, new Map(), candidatesAt(output(0), 0, 0))).toBe(Infinity);
  });

  it('is sharper at low temperature, and uniform at high temperature', () => {
    const at = [0.1, 0.5, 1, 2, 3].map((temperature) => entropy(softmaxAtTemperature(all, temperature)));
    expect([...at].sort((a, b) => a - b)).toEqual(at);
    expect(largestDifference(softmaxAtTemperature(all, 1), softmax(all))).toBe(0);
    expect(entropy(softmaxAtTemperature(all, 1e6))).toBeCloseTo(Math.log(V), 6);
  });

  it('has the cross-entropy of a smoothed target as its loss', () => {
    const [right, smoothing, p] = [order[5] as number, 0.1, softmax(all)];
    let loss = 0;
    for (let id = 0; id < V; id++)
      loss -= ((id === right ? 1 - smoothing : 0) + smoothing / V) * Math.log(p[id] as number);
    expect(smoothedLoss(logSumExp(all), all[right] as number, mean(all), smoothing)).toBeCloseTo(loss, 6);
    expect(smoothedLoss(logSumExp(all), all[right] as number, mean(all), 0)).toBeCloseTo(
      -Math.log(p[right] as number),
      6,
    );
    expect(logSumExp([-Infinity, -Infinity])).toBe(-Infinity);
  });
});

describe('a row of a tensor', () => {
  const whole: Tensor = { values: Float32Array.from({ length: 6 }, (_, i) => i), shape: [3, 2] };
  const manifest = { tensors: [{ name: 'logits', shape: [3, 2] }], parameters: [], shared: {}, pieces: { 7: '▁it' } };
  const from = (tensor: Source['tensor']) =>
    new Exploration(manifest as unknown as Manifest, {
      live: false,
      tree: () => Promise.reject(new Error('no tree')),
      tensor,
      weight: async () => null,
    });

  it('is the same from a server, which sends only the row, and from a file, which gives all', async () => {
    const server = from(async (_, slice) => ({
      ...whole,
      values: whole.values.slice(2 * Number(slice?.rows), 2 * Number(slice?.rows) + 2),
      shape: [1, 2],
    }));
    const file = from(async () => whole);
    for (let i = 0; i < 3; i++) expect(await server.row('logits', i)).toEqual(await file.row('logits', i));
    expect(await file.row('hidden', 0)).toBeNull();
  });

  it('a token has its text, or its id', () => {
    expect([from(async () => whole).piece(7), from(async () => whole).piece(8)]).toEqual(['▁it', '#8']);
  });
});
