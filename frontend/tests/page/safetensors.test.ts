// The safetensors reader against files that are written here byte by byte.
import { describe, expect, it } from 'vitest';
import { fromHalf, readSafetensors } from '../../src/page/data/safetensors';
import { fileSource } from '../../src/page/data/source';

function file(list: object, body: Uint8Array): ArrayBuffer {
  const header = new TextEncoder().encode(JSON.stringify(list));
  const whole = new Uint8Array(8 + header.length + body.length);
  new DataView(whole.buffer).setBigUint64(0, BigInt(header.length), true);
  whole.set(header, 8);
  whole.set(body, 8 + header.length);
  return whole.buffer;
}

const single = new Float32Array([1, -2.5, 3e-8, Infinity, 0, 7]);
const half = new Uint16Array([0x3c00, 0xc000, 0x0001, 0x7c00, 0xfc00, 0x3555]);
const body = new Uint8Array([...new Uint8Array(single.buffer), ...new Uint8Array(half.buffer)]);
const made = file(
  {
    __metadata__: { 'glassformer.trace': '{}' },
    'a.weights': { dtype: 'F32', shape: [2, 3], data_offsets: [0, 24] },
    'parameters.b.weight': { dtype: 'F16', shape: [3, 2], data_offsets: [24, 36] },
  },
  body,
);

describe('a safetensors file', () => {
  it('gives metadata, shapes and numbers', () => {
    const found = readSafetensors(made);
    expect(found.metadata).toEqual({ 'glassformer.trace': '{}' });
    expect(found.tensor('a.weights')).toEqual({ values: single, shape: [2, 3] });
    expect([...(found.tensor('parameters.b.weight')?.values ?? [])].slice(0, 5)).toEqual([
      1,
      -2,
      Math.fround(2 ** -24),
      Infinity,
      -Infinity,
    ]);
    expect(found.tensor('absent')).toBeNull();
    expect(found.tensor('toString')).toBeNull();
  });

  it('is refused when it is cut off', () => {
    expect(() => readSafetensors(new ArrayBuffer(4))).toThrow('less than 8 bytes');
    expect(() => readSafetensors(made.slice(0, 20))).toThrow('cut off');
    expect(() => readSafetensors(made.slice(0, made.byteLength - 20)).tensor('parameters.b.weight')).toThrow('beyond');
  });

  it('is a source of taps, and of rows of weights', async () => {
    const source = fileSource(readSafetensors(made));
    expect((await source.tensor('a.weights')).shape).toEqual([2, 3]);
    expect((await source.weight('b.weight', { rows: '1:3' }))?.shape).toEqual([2, 2]);
    expect(await source.weight('c.weight')).toBeNull();
    await expect(source.tensor('b')).rejects.toThrow('does not contain b');
  });
});

describe('bytes', () => {
  it('of every float16 lie between their neighbours', () => {
    let last = -1;
    for (let bits = 0; bits < 0x7c00; bits++) {
      const value = fromHalf(bits);
      expect(value).toBeGreaterThan(last);
      expect(fromHalf(bits | 0x8000)).toBe(-value);
      last = value;
    }
    expect(last).toBe(65504);
  });

  it('of bfloat16 are the upper halves of float32', () => {
    const numbers = [1, -2.5, 0, Infinity, 2 ** -126];
    const upper = Uint16Array.from(new Uint32Array(Float32Array.from(numbers).buffer), (bits) => bits >>> 16);
    const entry = { dtype: 'BF16', shape: [5], data_offsets: [0, 10] };
    const found = readSafetensors(file({ a: entry }, new Uint8Array(upper.buffer))).tensor('a');
    expect([...(found?.values ?? [])]).toEqual(numbers);
  });

  it('of an unsupported dtype are refused', () => {
    const complex = file({ a: { dtype: 'C64', shape: [1], data_offsets: [0, 8] } }, new Uint8Array(8));
    expect(() => readSafetensors(complex).tensor('a')).toThrow('C64');
  });
});
