// The recomputed arithmetic against its definitions, on random numbers.
import { describe, expect, it } from 'vitest';
import { grid, joined, part, row, transposed, type Grid } from '../../src/page/data/tensor';
import {
  cosine,
  dot,
  entropy,
  countForShare,
  largestDifference,
  norm,
  ranking,
  softmax,
  timesTransposed,
  weightedSum,
} from '../../src/page/maths/recompute';
import { covering, merged, type Span } from '../../src/page/screens/attention/wordWeights';

let seed = 1;
const chance = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
const some = (rows: number, cols: number): Grid => ({
  rows,
  cols,
  values: Float32Array.from({ length: rows * cols }, () => 4 * chance() - 2),
});
const total = (values: ArrayLike<number>) => Array.from(values).reduce((sum, one) => sum + one, 0);

describe('softmax', () => {
  it('adds up to 1, keeps the order, and is invariant to a constant', () => {
    for (let trial = 0; trial < 50; trial++) {
      const { values } = some(1, 1 + Math.floor(20 * chance()));
      const p = softmax(values);
      expect(total(p)).toBeCloseTo(1, 12);
      expect(ranking(p)).toEqual(ranking(values));
      expect(largestDifference(softmax(values.map((x) => x + 64)), p)).toBeLessThan(1e-5);
    }
  });

  it('gives 0 to masked scores, and all zeros if everything is masked', () => {
    expect([...softmax([0, -Infinity, 0])]).toEqual([0.5, 0, 0.5]);
    expect([...softmax([-Infinity, -Infinity])]).toEqual([0, 0]);
  });

  it('has the entropy of its definition', () => {
    expect(entropy(softmax([3, 3, 3, 3]))).toBeCloseTo(Math.log(4), 12);
    expect(entropy([1, 0])).toBe(0);
  });
});

describe('products', () => {
  it('are sums of products, with a bias for each column', () => {
    const [a, b, bias] = [some(3, 7), some(5, 7), some(1, 5).values];
    const found = timesTransposed(a, b, bias);
    for (let r = 0; r < 3; r++) {
      for (let c = 0; c < 5; c++)
        expect(row(found, r)[c]).toBeCloseTo(dot(row(a, r), row(b, c)) + (bias[c] as number), 5);
    }
    expect(largestDifference(transposed(timesTransposed(a, b)).values, timesTransposed(b, a).values)).toBeLessThan(
      1e-6,
    );
  });

  it('of weights and values are their weighted sum', () => {
    const [values, weights] = [some(6, 4), softmax(some(1, 6).values)];
    expect(
      largestDifference(
        weightedSum(weights, values),
        timesTransposed({ rows: 1, cols: 6, values: Float32Array.from(weights) }, transposed(values)).values,
      ),
    ).toBeLessThan(1e-6);
  });

  it('have norms and cosines', () => {
    expect(norm([3, 4])).toBe(5);
    expect(cosine([1, 0], [0, 1])).toBe(0);
    expect(cosine([1, 2], [-2, -4])).toBeCloseTo(-1, 12);
  });
});

describe('a difference', () => {
  it('is 0 between two -∞, and ∞ between -∞ and a number, or between different lengths', () => {
    expect(largestDifference([-Infinity, 1], [-Infinity, 1.5])).toBe(0.5);
    expect(largestDifference([-Infinity], [0])).toBe(Infinity);
    expect(largestDifference([NaN], [0])).toBe(Infinity);
    expect(largestDifference([1], [1, 2])).toBe(Infinity);
  });
});

describe('heads', () => {
  it('are concatenated when joined', () => {
    const tensor = { values: Float32Array.from({ length: 24 }, (_, i) => i), shape: [2, 3, 4] };
    const found = joined(tensor);
    expect([found.rows, found.cols]).toEqual([3, 8]);
    for (let t = 0; t < 3; t++)
      expect([...row(found, t)]).toEqual([...row(grid(part(tensor, 0)), t), ...row(grid(part(tensor, 1)), t)]);
  });
});

describe('words', () => {
  it('cover every position once', () => {
    expect(
      covering(
        [
          [1, 3],
          [3, 4],
        ],
        6,
      ),
    ).toEqual([
      [0, 1],
      [1, 3],
      [3, 4],
      [4, 5],
      [5, 6],
    ]);
    expect(covering([], 2)).toEqual([
      [0, 1],
      [1, 2],
    ]);
  });

  it('keep every row a distribution', () => {
    const weights = { rows: 5, cols: 5, values: new Float32Array(25) };
    for (let r = 0; r < 5; r++) weights.values.set(softmax(some(1, 5).values), 5 * r);
    const spans: Span[] = [
      [0, 2],
      [2, 3],
      [3, 5],
    ];
    const found = merged(weights, spans, spans);
    for (let r = 0; r < 3; r++) expect(total(row(found, r))).toBeCloseTo(1, 6);
  });

  it('are counted until they reach a share', () => {
    const p = [0.1, 0.6, 0.3];
    expect(countForShare(p, ranking(p), 0.6)).toBe(1);
    expect(countForShare(p, ranking(p), 0.9)).toBe(2);
    expect(countForShare(p, ranking(p), 2)).toBe(3);
  });
});
