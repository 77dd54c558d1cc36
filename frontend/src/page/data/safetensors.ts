// A safetensors file: eight bytes that say how long its list is, the list as JSON, the numbers.
import { exactly, numbers } from './bytes';
import type { Tensor } from './tensor';

const KINDS: Record<string, string> = {
  F32: 'float32',
  F16: 'float16',
  F64: 'float64',
  I32: 'int32',
  I64: 'int64',
  U8: 'uint8',
};

interface Entry {
  dtype: string;
  shape: number[];
  data_offsets: [number, number];
}

export interface File {
  names: string[];
  /** Metadata of the file, from its `__metadata__` entry. */
  metadata: Record<string, string>;
  tensor(name: string): Tensor | null;
  /** A list in double precision. */
  list(name: string): number[] | null;
}

export function readSafetensors(content: ArrayBuffer): File {
  if (content.byteLength < 8) throw new Error('This is not a safetensors file: it has less than 8 bytes.');
  const length = Number(new DataView(content).getBigUint64(0, true));
  if (length > content.byteLength - 8) throw new Error('This is not a whole safetensors file: its list is cut off.');
  const list = JSON.parse(new TextDecoder().decode(new Uint8Array(content, 8, length))) as Record<string, Entry>;
  const { __metadata__: metadata, ...entries } = list as typeof list & { __metadata__?: Record<string, string> };
  const begin = 8 + length;
  function found(name: string): { bytes: Uint8Array; kind: string; shape: number[] } | null {
    const entry = Object.hasOwn(entries, name) ? entries[name] : undefined;
    if (entry === undefined) return null;
    const [first, last] = entry.data_offsets;
    if (first > last || begin + last > content.byteLength) throw new Error(`${name} lies beyond the file's end.`);
    return {
      bytes: new Uint8Array(content, begin + first, last - first),
      kind: KINDS[entry.dtype] ?? entry.dtype,
      shape: entry.shape,
    };
  }
  return {
    names: Object.keys(entries),
    metadata: metadata ?? {},
    tensor(name) {
      const one = found(name);
      return one === null ? null : { values: numbers(one.bytes, one.kind), shape: one.shape, axes: [] };
    },
    list(name) {
      const one = found(name);
      return one === null ? null : exactly(one.bytes, one.kind);
    },
  };
}
