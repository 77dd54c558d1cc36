// Reader of safetensors files: eight bytes with the length of the header, the header as JSON, the numbers.
import { toDoubles, toFloat32 } from './bytes';
import type { Tensor } from './tensor';

const DTYPES: Record<string, string> = {
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
  if (content.byteLength < 8) throw new Error('Not a safetensors file: it has less than 8 bytes.');
  const length = Number(new DataView(content).getBigUint64(0, true));
  if (length > content.byteLength - 8) throw new Error('Incomplete safetensors file: its header is cut off.');
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(content, 8, length))) as Record<string, Entry>;
  const { __metadata__: metadata, ...entries } = header as typeof header & { __metadata__?: Record<string, string> };
  const begin = 8 + length;
  function find(name: string): { bytes: Uint8Array; dtype: string; shape: number[] } | null {
    const entry = Object.hasOwn(entries, name) ? entries[name] : undefined;
    if (entry === undefined) return null;
    const [first, last] = entry.data_offsets;
    if (first > last || begin + last > content.byteLength) throw new Error(`${name} lies beyond the end of the file.`);
    return {
      bytes: new Uint8Array(content, begin + first, last - first),
      dtype: DTYPES[entry.dtype] ?? entry.dtype,
      shape: entry.shape,
    };
  }
  return {
    names: Object.keys(entries),
    metadata: metadata ?? {},
    tensor(name) {
      const entry = find(name);
      return entry === null ? null : { values: toFloat32(entry.bytes, entry.dtype), shape: entry.shape, axes: [] };
    },
    list(name) {
      const entry = find(name);
      return entry === null ? null : toDoubles(entry.bytes, entry.dtype);
    },
  };
}
