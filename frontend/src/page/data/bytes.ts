// Decoding of little-endian bytes into numbers.

/** One float16: sign bit, five exponent bits, ten fraction bits. */
export function fromHalf(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

const READERS: Record<string, { size: number; read: (view: DataView, at: number) => number }> = {
  float32: { size: 4, read: (view, at) => view.getFloat32(at, true) },
  float16: { size: 2, read: (view, at) => fromHalf(view.getUint16(at, true)) },
  float64: { size: 8, read: (view, at) => view.getFloat64(at, true) },
  uint8: { size: 1, read: (view, at) => view.getUint8(at) },
  int32: { size: 4, read: (view, at) => view.getInt32(at, true) },
  int64: { size: 8, read: (view, at) => Number(view.getBigInt64(at, true)) },
};

/** `dtype`: NumPy's name. */
export function toFloat32(bytes: Uint8Array, dtype: string): Float32Array {
  const { length, at } = readerOf(bytes, dtype);
  return Float32Array.from({ length }, (_, i) => at(i));
}

/** The same in double precision, for short lists that need all digits. */
export function toDoubles(bytes: Uint8Array, dtype: string): number[] {
  const { length, at } = readerOf(bytes, dtype);
  return Array.from({ length }, (_, i) => at(i));
}

function readerOf(bytes: Uint8Array, dtype: string): { length: number; at: (i: number) => number } {
  const reader = READERS[dtype];
  if (reader === undefined) throw new Error(`Unsupported dtype ${dtype}.`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return { length: bytes.byteLength / reader.size, at: (i) => reader.read(view, i * reader.size) };
}
