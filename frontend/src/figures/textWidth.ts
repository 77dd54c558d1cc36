// Text widths, estimated without a DOM: those of DejaVu Sans, the widest of the fonts that may be used, so that a text
// fits in the others too. Widths are in hundredths of the font size.

const ASCII_WIDTHS = [
  32, 40, 46, 84, 64, 95, 78, 27, 39, 39, 50, 84, 32, 36, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 34, 34, 84,
  84, 84, 53, 100, 68, 69, 70, 77, 63, 58, 77, 75, 29, 29, 66, 56, 86, 75, 79, 60, 79, 69, 63, 61, 73, 68, 99, 69, 61,
  69, 39, 34, 39, 84, 50, 50, 61, 63, 55, 63, 62, 35, 63, 63, 28, 28, 58, 28, 97, 63, 61, 63, 63, 41, 52, 39, 63, 59,
  82, 59, 59, 52, 64, 34, 64, 84,
];
const BOLD_FACTOR = 1.12;
const DEFAULT_WIDTH = 64;

/** First and last code point, width. The first matching range applies; other characters have DEFAULT_WIDTH. */
const RANGE_WIDTHS: [number, number, number][] = [
  [0x00b7, 0x00b7, 32],
  [0x00d7, 0x00d7, 84],
  [0x0300, 0x036f, 0],
  [0x0370, 0x052f, 68],
  [0x0591, 0x05bd, 0],
  [0x05be, 0x05ff, 58],
  [0x064b, 0x065f, 0],
  [0x0600, 0x06ff, 70],
  [0x07eb, 0x07f3, 0],
  [0x07c0, 0x07ff, 62],
  [0x0900, 0x0dff, 80],
  [0x1100, 0x11ff, 100],
  [0x1d40, 0x1d40, 40],
  [0x200b, 0x200f, 0],
  [0x2026, 0x2026, 100],
  [0x2066, 0x2069, 0],
  [0x2010, 0x2070, 60],
  [0x2190, 0x22ff, 84],
  [0x2e80, 0x9fff, 100],
  [0xac00, 0xd7af, 100],
  [0xf900, 0xfaff, 100],
  [0xfe00, 0xfe0f, 0],
  [0xff00, 0xffef, 100],
  [0x1f000, 0x1faff, 125],
  [0x20000, 0x3ffff, 100],
];

function characterWidth(code: number): number {
  if (code >= 32 && code < 127) return ASCII_WIDTHS[code - 32] as number;
  for (const [first, last, width] of RANGE_WIDTHS) if (code >= first && code <= last) return width;
  return DEFAULT_WIDTH;
}

/** The width of a text at a font size, in the unit of that size. */
export function textWidth(text: string, size: number, bold = false): number {
  let hundredths = 0;
  for (const character of text) hundredths += characterWidth(character.codePointAt(0) as number);
  return (hundredths * size * (bold ? BOLD_FACTOR : 1)) / 100;
}
