// The shared parts, each by its law.
import { describe, expect, it } from 'vitest';
import { binned, even } from '../src/figures/cells';
import { every } from '../src/figures/labels';
import { base64, png } from '../src/figures/png';
import { palette, probabilityScale, roundedUp, signedScale, step, STEPS } from '../src/figures/scales';
import { escape, number, tag } from '../src/figures/svg';
import { cut, formula, isolated, prose, shown, wrap } from '../src/figures/text';
import { DARK, LIGHT } from '../src/figures/theme';
import type { Matrix } from '../src/figures/types';
import { measure } from '../src/figures/widths';
import { decimal, probability } from '../src/figures/words';

const matrix = (rows: number, cols: number, at: (row: number, col: number) => number | null): Matrix => ({
  rows,
  cols,
  values: Array.from({ length: rows * cols }, (_, i) => at(Math.floor(i / cols), i % cols)),
});

describe('elements', () => {
  it('writes numbers with two decimals and no minus zero', () => {
    expect([1, -0.001, 1 / 3, 1e-9, 12.345].map(number)).toEqual(['1', '0', '0.33', '0', '12.35']);
  });
  it('sorts attributes and escapes what XML would read', () => {
    expect(tag('a', { z: 1, b: '"<&' }, 'x')).toBe('<a b="&quot;&lt;&amp;" z="1">x</a>');
  });
  it('replaces what XML may not hold', () => {
    expect(escape('a\u0000\ud800b🦓')).toBe('a��b🦓');
  });
});

describe('text', () => {
  const words = ['a', 'internationalisation', 'Straße', '高い山', 'é́é́é́é́é́', '', '…'];
  it('is never wider than its room once it is cut', () => {
    for (const word of words)
      for (const room of [12, 20, 60]) expect(measure(cut(word, room), 8)).toBeLessThanOrEqual(room);
  });
  it('stays as it is where it fits', () => {
    for (const word of words) expect(cut(word, 500)).toBe(word);
  });
  it('is wrapped without losing a word', () => {
    const sentence = 'The animal did not cross the street because it was too tired';
    const lines = wrap(sentence, 90);
    expect(lines.join(' ')).toBe(sentence);
    for (const line of lines) expect(measure(line, 8)).toBeLessThanOrEqual(90);
  });
  it('shows pieces without their marks', () => {
    expect(['▁The', 'n', '▁', '</s>', '▁New▁York'].map(shown)).toEqual(['The', 'n', '␣', '</s>', 'New York']);
  });
  it('keeps scripts that run to the left by themselves', () => {
    expect(isolated('street')).toBe('street');
    expect(isolated('شارع')).toBe('\u2068شارع\u2069');
  });
  it('lowers indices and comes back up', () => {
    expect(formula(0, 0, 'W_K^1x', { fill: '#000000' }).match(/dy="[^"]*"/g)).toEqual([
      'dy="1.76"',
      'dy="-4.8"',
      'dy="3.04"',
    ]);
    expect(prose(0, 0, 'x × W_Q = Q', { fill: '#000000' }).match(/dy="[^"]*"/g)).toEqual(['dy="1.76"', 'dy="-1.76"']);
    expect(prose(0, 0, 'snake_case', { fill: '#000000' })).toContain('>snake_case<');
  });
});

describe('pictures', () => {
  it('hold every cell, row by row', () => {
    const bytes = png(
      3,
      2,
      [0, 1, 2, 2, 1, 0],
      [
        [1, 2, 3],
        [4, 5, 6],
        [7, 8, 9],
      ],
      0,
    );
    const text = String.fromCharCode(...bytes);
    const data = text.indexOf('IDAT') + 4;
    // Two bytes of zlib's header and five of the block's come first; each row has a byte for its filter.
    expect(bytes.slice(data + 7, data + 15)).toEqual([0, 0, 1, 2, 0, 2, 1, 0]);
    expect(bytes.slice(16, 24)).toEqual([0, 0, 0, 3, 0, 0, 0, 2]);
    expect(text.slice(-8, -4)).toBe('IEND');
    expect(bytes.slice(-4)).toEqual([0xae, 0x42, 0x60, 0x82]); // what every PNG ends with: the sum of IEND
  });
  it('are written in base64', () => {
    const bytes = (word: string) => [...word].map((letter) => letter.charCodeAt(0));
    expect(['', 'M', 'Ma', 'Man'].map((word) => base64(bytes(word)))).toEqual(['', 'TQ==', 'TWE=', 'TWFu']);
  });
});

describe('scales', () => {
  it('give 0 the colour in the middle', () => {
    for (const theme of [LIGHT, DARK]) {
      const scale = { kind: 'signed' as const, limit: 3 };
      const middle = theme.diverging[(theme.diverging.length - 1) / 2] as string;
      const colour = palette(scale, theme)[step(0, scale)] ?? [];
      expect(`#${colour.map((part) => part.toString(16).padStart(2, '0')).join('')}`).toBe(middle);
    }
  });
  it('rise with the value and end at the limit', () => {
    const scale = { kind: 'signed' as const, limit: 2 };
    const steps = [-9, -2, -1, 0, 1, 2, 9].map((value) => step(value, scale));
    expect(steps).toEqual([...steps].sort((a, b) => a - b));
    expect([steps[0], steps[6]]).toEqual([0, STEPS - 1]);
  });
  it('leave a few large values beyond', () => {
    const one = matrix(10, 100, (row, col) => (row === 0 && col === 0 ? 1000 : Math.sin(row + col)));
    expect(signedScale([one]).limit).toBeLessThanOrEqual(1);
  });
  it('say when a probability lies beyond', () => {
    expect(probabilityScale([matrix(30, 30, () => 1 / 30)])).toEqual({
      kind: 'probability',
      limit: 0.05,
      clipped: false,
    });
    expect(probabilityScale([matrix(30, 30, (row, col) => (row + col === 0 ? 1 : 0.01))]).clipped).toBe(true);
  });
  it('round up to two digits', () => {
    expect([0, 0.0123, 1, 1.01, 99.1, 1234].map(roundedUp)).toEqual([0, 0.013, 1, 1.1, 100, 1300]);
  });
});

describe('cells', () => {
  it('in bins keep the mean of all', () => {
    const one = matrix(6, 8, (row, col) => row * col - 7);
    const mean = (values: (number | null)[]) =>
      values.reduce<number>((sum, value) => sum + (value ?? 0), 0) / values.length;
    expect(mean(binned(one, 2, 4).values)).toBeCloseTo(mean(one.values), 12);
  });
  it('that are all masked stay masked', () => {
    expect(
      binned(
        matrix(1, 4, (_, col) => (col < 2 ? null : 3)),
        1,
        2,
      ).values,
    ).toEqual([null, 3]);
  });
  it('go together in numbers that leave no smaller bin', () => {
    expect([even(512, 7.3), even(512, 11), even(128, 1), even(13, 2)]).toEqual([8, 16, 1, 2]);
  });
});

describe('labels', () => {
  it('are all there while there is room, and every second above 40', () => {
    expect([every(16, 9, 8.8), every(16, 5, 8.8), every(60, 20, 8.8), every(60, 2, 8.8)]).toEqual([1, 2, 2, 5]);
  });
});

describe('numbers in words', () => {
  it('have the digits that say something', () => {
    expect([0, 0.31, 2, 2.1, 123.4, 0.0012].map(decimal)).toEqual(['0', '0.31', '2', '2.1', '123', '0.0012']);
    expect([0, 0.00001, 0.0012, 0.034, 0.31, 0.9997].map(probability)).toEqual([
      '0',
      '< 0.0001',
      '0.0012',
      '0.034',
      '0.31',
      '> 0.999',
    ]);
  });
});
