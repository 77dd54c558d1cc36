// Reader of safetensors files: eight bytes with the length of the header, the header as JSON, the numbers. All numbers
// come as such a file, from the server and in a saved page; `glassformer.inspection.tracing.trace_file` writes it.
import type { Tensor } from './tensor';

interface Entry {
  dtype: string;
  shape: number[];
  data_offsets: [number, number];
}

export interface File {
  /** Metadata of the file, from its `__metadata__` entry. */
  metadata: Record<string, string>;
  tensor(name: string): Tensor | null;
  /** A list in double precision, for numbers that need all digits. */
  list(name: string): number[] | null;
}

const READERS: Record<string, { size: number; read: (view: DataView, at: number) => number }> = {
  F32: { size: 4, read: (view, at) => view.getFloat32(at, true) },
  F16: { size: 2, read: (view, at) => fromHalf(view.getUint16(at, true)) },
  BF16: { size: 2, read: (view, at) => fromBfloat16(view.getUint16(at, true)) },
  F64: { size: 8, read: (view, at) => view.getFloat64(at, true) },
  U8: { size: 1, read: (view, at) => view.getUint8(at) },
  I32: { size: 4, read: (view, at) => view.getInt32(at, true) },
  I64: { size: 8, read: (view, at) => Number(view.getBigInt64(at, true)) },
};

export function readSafetensors(content: ArrayBuffer): File {
  if (content.byteLength < 8) throw new Error('Not a safetensors file: it has less than 8 bytes.');
  const length = Number(new DataView(content).getBigUint64(0, true));
  if (length > content.byteLength - 8) throw new Error('Incomplete safetensors file: its header is cut off.');
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(content, 8, length))) as Record<string, Entry>;
  const { __metadata__: metadata, ...entries } = header as typeof header & { __metadata__?: Record<string, string> };
  const begin = 8 + length;
  function find(name: string): { length: number; at: (i: number) => number; shape: number[] } | null {
    const entry = Object.hasOwn(entries, name) ? entries[name] : undefined;
    if (entry === undefined) return null;
    const { dtype, shape, data_offsets } = entry;
    const [first, last] = data_offsets;
    if (first > last || begin + last > content.byteLength) throw new Error(`${name} lies beyond the end of the file.`);
    const reader = READERS[dtype];
    if (reader === undefined) throw new Error(`Unsupported dtype ${dtype}.`);
    const view = new DataView(content, begin + first, last - first);
    return { length: (last - first) / reader.size, at: (i) => reader.read(view, i * reader.size), shape };
  }
  return {
    metadata: metadata ?? {},
    tensor(name) {
      const found = find(name);
      return found && { values: Float32Array.from(found, (_, i) => found.at(i)), shape: found.shape };
    },
    list(name) {
      const found = find(name);
      return found && Array.from(found, (_, i) => found.at(i));
    },
  };
}

/** One float16: sign bit, five exponent bits, ten fraction bits. */
export function fromHalf(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** One bfloat16: the upper half of a float32. */
function fromBfloat16(bits: number): number {
  return new Float32Array(Uint32Array.of(bits << 16).buffer)[0] as number;
}
