// From little-endian bytes to numbers that JavaScript computes with.

/** One float16: sign, five bits of exponent, ten of fraction. */
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
  int32: { size: 4, read: (view, at) => view.getInt32(at, true) },
  uint8: { size: 1, read: (view, at) => view.getUint8(at) },
  int64: { size: 8, read: (view, at) => Number(view.getBigInt64(at, true)) },
};

/** `dtype` as NumPy names it. */
export function numbers(bytes: Uint8Array, dtype: string): Float32Array {
  const reader = READERS[dtype];
  if (reader === undefined) throw new Error(`Numbers of the kind ${dtype} cannot be read here.`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Float32Array.from({ length: bytes.byteLength / reader.size }, (_, i) => reader.read(view, i * reader.size));
}
