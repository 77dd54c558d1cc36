// Shared modules of the figures.
import { describe, expect, it } from 'vitest';
import { binned, binSize } from '../src/figures/cells';
import { decimal, probability } from '../src/figures/formatting';
import { labelStride } from '../src/figures/labels';
import { base64, png } from '../src/figures/png';
import { palette, PALETTE_SIZE, paletteIndex, probabilityScale, roundedUp, signedScale } from '../src/figures/scales';
import { escape, number, tag } from '../src/figures/svg';
import { formula, isolated, prose, tokenText, truncate, wrap } from '../src/figures/text';
import { textWidth } from '../src/figures/textWidth';
import { DARK, LIGHT } from '../src/figures/theme';
import type { Matrix } from '../src/figures/types';

const matrix = (rows: number, cols: number, at: (row: number, col: number) => number | null): Matrix => ({
  rows,
  cols,
  values: Array.from({ length: rows * cols }, (_, i) => at(Math.floor(i / cols), i % cols)),
});

describe('elements', () => {
  it('writes numbers with two decimals and no minus zero', () => {
    expect([1, -0.001, 1 / 3, 1e-9, 12.345].map(number)).toEqual(['1', '0', '0.33', '0', '12.35']);
  });
  it('sorts attributes and escapes XML', () => {
    expect(tag('a', { z: 1, b: '"<&' }, 'x')).toBe('<a b="&quot;&lt;&amp;" z="1">x</a>');
  });
  it('replaces characters that XML forbids', () => {
    expect(escape('a\u0000\ud800b🦓')).toBe('a��b🦓');
  });
});

describe('text', () => {
  const words = ['a', 'internationalisation', 'Straße', '高い山', 'é́é́é́é́é́', '', '…'];
  it('fits the given width once truncated', () => {
    for (const word of words)
      for (const width of [12, 20, 60]) expect(textWidth(truncate(word, width), 8)).toBeLessThanOrEqual(width);
  });
  it('is unchanged if it fits', () => {
    for (const word of words) expect(truncate(word, 500)).toBe(word);
  });
  it('is wrapped without losing a word', () => {
    const sentence = 'The animal did not cross the street because it was too tired';
    const lines = wrap(sentence, 90);
    expect(lines.join(' ')).toBe(sentence);
    for (const line of lines) expect(textWidth(line, 8)).toBeLessThanOrEqual(90);
  });
  it('shows tokens without ▁', () => {
    expect(['▁The', 'n', '▁', '</s>', '▁New▁York'].map(tokenText)).toEqual(['The', 'n', '␣', '</s>', 'New York']);
  });
  it('isolates right-to-left tokens', () => {
    expect(isolated('street')).toBe('street');
    expect(isolated('شارع')).toBe('\u2068شارع\u2069');
  });
  it('returns to the baseline after subscripts and superscripts', () => {
    expect(formula(0, 0, 'W_K^1x', { fill: '#000000' }).match(/dy="[^"]*"/g)).toEqual([
      'dy="1.76"',
      'dy="-4.8"',
      'dy="3.04"',
    ]);
    expect(prose(0, 0, 'x × W_Q = Q', { fill: '#000000' }).match(/dy="[^"]*"/g)).toEqual(['dy="1.76"', 'dy="-1.76"']);
    expect(prose(0, 0, 'snake_case', { fill: '#000000' })).toContain('>snake_case<');
  });
});

describe('PNG images', () => {
  it('contain every cell, row by row', () => {
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
    // After the headers of zlib (two bytes) and of the block (five); each row begins with a byte for its filter.
    expect(bytes.slice(data + 7, data + 15)).toEqual([0, 0, 1, 2, 0, 2, 1, 0]);
    expect(bytes.slice(16, 24)).toEqual([0, 0, 0, 3, 0, 0, 0, 2]);
    expect(text.slice(-8, -4)).toBe('IEND');
    expect(bytes.slice(-4)).toEqual([0xae, 0x42, 0x60, 0x82]); // the checksum of IEND, the end of every PNG
  });
  it('are encoded in base64', () => {
    const bytes = (word: string) => [...word].map((letter) => letter.charCodeAt(0));
    expect(['', 'M', 'Ma', 'Man'].map((word) => base64(bytes(word)))).toEqual(['', 'TQ==', 'TWE=', 'TWFu']);
  });
});

describe('scales', () => {
  it('give 0 the middle colour', () => {
    for (const theme of [LIGHT, DARK]) {
      const scale = { kind: 'signed' as const, limit: 3 };
      const middle = theme.diverging[(theme.diverging.length - 1) / 2] as string;
      const colour = palette(scale, theme)[paletteIndex(0, scale)] ?? [];
      expect(`#${colour.map((part) => part.toString(16).padStart(2, '0')).join('')}`).toBe(middle);
    }
  });
  it('increase with the value up to the limit', () => {
    const scale = { kind: 'signed' as const, limit: 2 };
    const steps = [-9, -2, -1, 0, 1, 2, 9].map((value) => paletteIndex(value, scale));
    expect(steps).toEqual([...steps].sort((a, b) => a - b));
    expect([steps[0], steps[6]]).toEqual([0, PALETTE_SIZE - 1]);
  });
  it('exclude a few outliers', () => {
    const one = matrix(10, 100, (row, col) => (row === 0 && col === 0 ? 1000 : Math.sin(row + col)));
    expect(signedScale([one]).limit).toBeLessThanOrEqual(1);
  });
  it('tell if a probability exceeds the limit', () => {
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
  it('keep their mean in bins', () => {
    const one = matrix(6, 8, (row, col) => row * col - 7);
    const mean = (values: (number | null)[]) =>
      values.reduce<number>((sum, value) => sum + (value ?? 0), 0) / values.length;
    expect(mean(binned(one, 2, 4).values)).toBeCloseTo(mean(one.values), 12);
  });
  it('stay masked if their whole bin is masked', () => {
    expect(
      binned(
        matrix(1, 4, (_, col) => (col < 2 ? null : 3)),
        1,
        2,
      ).values,
    ).toEqual([null, 3]);
  });
  it('are combined into bins of equal size if possible', () => {
    expect([binSize(512, 7.3), binSize(512, 11), binSize(128, 1), binSize(13, 2)]).toEqual([8, 16, 1, 2]);
  });
});

describe('labels', () => {
  it('are all drawn if they fit, and at most every second above 40 tokens', () => {
    expect([
      labelStride(16, 9, 8.8),
      labelStride(16, 5, 8.8),
      labelStride(60, 20, 8.8),
      labelStride(60, 2, 8.8),
    ]).toEqual([1, 2, 2, 5]);
  });
});

describe('formatted numbers', () => {
  it('have the significant digits only', () => {
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
