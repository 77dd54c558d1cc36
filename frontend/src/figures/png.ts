// PNG encoder for matrices of cells: one byte per cell, a colour palette, no compression. Needs no library and no DOM.
import type { Rgb } from './scales';

const SIGNATURE = [137, 80, 78, 71, 13, 10, 26, 10];
const MAX_BLOCK_BYTES = 65535;

const CRC_TABLE = Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let bit = 0; bit < 8; bit++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  return c >>> 0;
});

function crc(bytes: number[]): number {
  let c = 0xffffffff;
  for (const byte of bytes) c = (CRC_TABLE[(c ^ byte) & 255] as number) ^ (c >>> 8);
  return (c ^ 0xffffffff) >>> 0;
}

function adler(bytes: number[]): number {
  let a = 1;
  let b = 0;
  for (const byte of bytes) {
    a = (a + byte) % 65521;
    b = (b + a) % 65521;
  }
  return ((b << 16) | a) >>> 0;
}

function bigEndian(x: number): number[] {
  return [(x >>> 24) & 255, (x >>> 16) & 255, (x >>> 8) & 255, x & 255];
}

function chunk(name: string, body: number[]): number[] {
  const named = [...name].map((letter) => letter.charCodeAt(0)).concat(body);
  return bigEndian(body.length).concat(named, bigEndian(crc(named)));
}

/** zlib format with uncompressed (stored) blocks. */
function zlibStored(bytes: number[]): number[] {
  const blocks: number[] = [0x78, 0x01];
  for (let start = 0; start < bytes.length || start === 0; start += MAX_BLOCK_BYTES) {
    const block = bytes.slice(start, start + MAX_BLOCK_BYTES);
    const last = start + MAX_BLOCK_BYTES >= bytes.length ? 1 : 0;
    blocks.push(last, block.length & 255, block.length >> 8, ~block.length & 255, (~block.length >> 8) & 255);
    for (const byte of block) blocks.push(byte);
  }
  return blocks.concat(bigEndian(adler(bytes)));
}

/** Cells row by row, each an index into `colours`; the colour `transparent` is not drawn. */
export function png(width: number, height: number, cells: number[], colours: Rgb[], transparent: number): number[] {
  const scanlines: number[] = [];
  for (let row = 0; row < height; row++) {
    scanlines.push(0); // no filter
    for (let col = 0; col < width; col++) scanlines.push(cells[row * width + col] as number);
  }
  const colourTable: number[] = [];
  for (const colour of colours) colourTable.push(...colour);
  const opacity = colours.map((_, index) => (index === transparent ? 0 : 255));
  return SIGNATURE.concat(
    chunk('IHDR', [...bigEndian(width), ...bigEndian(height), 8, 3, 0, 0, 0]),
    chunk('PLTE', colourTable),
    chunk('tRNS', opacity),
    chunk('IDAT', zlibStored(scanlines)),
    chunk('IEND', []),
  );
}

const BASE64_ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

export function base64(bytes: number[]): string {
  let encoded = '';
  for (let i = 0; i < bytes.length; i += 3) {
    const [a, b, c] = [bytes[i] as number, bytes[i + 1], bytes[i + 2]];
    const bits = (a << 16) | ((b ?? 0) << 8) | (c ?? 0);
    encoded += BASE64_ALPHABET.charAt(bits >> 18) + BASE64_ALPHABET.charAt((bits >> 12) & 63);
    encoded += b === undefined ? '=' : BASE64_ALPHABET.charAt((bits >> 6) & 63);
    encoded += c === undefined ? '=' : BASE64_ALPHABET.charAt(bits & 63);
  }
  return encoded;
}
