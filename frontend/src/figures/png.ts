// A picture of cells as PNG: one byte a cell, a table of colours, nothing compressed. Needs no library and no DOM.
import type { Rgb } from './scales';

const SIGNATURE = [137, 80, 78, 71, 13, 10, 26, 10];
const LARGEST_BLOCK = 65535;

const CRC = Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let bit = 0; bit < 8; bit++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  return c >>> 0;
});

function crc(bytes: number[]): number {
  let c = 0xffffffff;
  for (const byte of bytes) c = (CRC[(c ^ byte) & 255] as number) ^ (c >>> 8);
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

function big(x: number): number[] {
  return [(x >>> 24) & 255, (x >>> 16) & 255, (x >>> 8) & 255, x & 255];
}

function chunk(name: string, body: number[]): number[] {
  const named = [...name].map((letter) => letter.charCodeAt(0)).concat(body);
  return big(body.length).concat(named, big(crc(named)));
}

/** zlib's format with stored blocks. */
function stored(bytes: number[]): number[] {
  const blocks: number[] = [0x78, 0x01];
  for (let start = 0; start < bytes.length || start === 0; start += LARGEST_BLOCK) {
    const block = bytes.slice(start, start + LARGEST_BLOCK);
    const last = start + LARGEST_BLOCK >= bytes.length ? 1 : 0;
    blocks.push(last, block.length & 255, block.length >> 8, ~block.length & 255, (~block.length >> 8) & 255);
    for (const byte of block) blocks.push(byte);
  }
  return blocks.concat(big(adler(bytes)));
}

/** Cells row by row, each the number of its colour. Transparent where it is `clear`. */
export function png(width: number, height: number, cells: number[], colours: Rgb[], clear: number): number[] {
  const scanlines: number[] = [];
  for (let row = 0; row < height; row++) {
    scanlines.push(0); // no filter
    for (let col = 0; col < width; col++) scanlines.push(cells[row * width + col] as number);
  }
  const table: number[] = [];
  for (const colour of colours) table.push(...colour);
  const opacity = colours.map((_, index) => (index === clear ? 0 : 255));
  return SIGNATURE.concat(
    chunk('IHDR', [...big(width), ...big(height), 8, 3, 0, 0, 0]),
    chunk('PLTE', table),
    chunk('tRNS', opacity),
    chunk('IDAT', stored(scanlines)),
    chunk('IEND', []),
  );
}

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

export function base64(bytes: number[]): string {
  let written = '';
  for (let i = 0; i < bytes.length; i += 3) {
    const [a, b, c] = [bytes[i] as number, bytes[i + 1], bytes[i + 2]];
    const three = (a << 16) | ((b ?? 0) << 8) | (c ?? 0);
    written += LETTERS.charAt(three >> 18) + LETTERS.charAt((three >> 12) & 63);
    written += b === undefined ? '=' : LETTERS.charAt((three >> 6) & 63);
    written += c === undefined ? '=' : LETTERS.charAt(three & 63);
  }
  return written;
}
