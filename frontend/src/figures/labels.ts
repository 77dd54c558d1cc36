// Tokens along the sides of a matrix: every one while there is room, else every second, third, ...
import type { Sheet } from './sheet';
import { cut, shown, SIZE, text } from './text';
import type { Token } from './types';
import { measure } from './widths';

const ROW_PITCH = 8.8;
const COLUMN_PITCH = 10.2;
const ARROW = 10;
export const SLANT = 45;
const SINE = 0.7071;

/** Which labels are written where positions lie so close: every n-th; above 40 tokens at least every second. */
export function every(count: number, pitch: number, needed: number): number {
  const fits = Math.max(1, Math.ceil(needed / pitch - 1e-6));
  return count > 40 ? Math.max(2, fits) : fits;
}

function widest(texts: string[], cap: number): number {
  return Math.min(cap, Math.max(0, ...texts.map((one) => measure(one, SIZE))));
}

/** The room that row labels take: of the target two columns, what went in and what is predicted. */
export class RowLabels {
  private readonly after: number;
  private readonly own: number;
  readonly width: number;

  constructor(
    private readonly sheet: Sheet,
    private readonly tokens: Token[],
    cap = sheet.narrow ? 34 : 54,
  ) {
    const before = tokens.map((token) => token.after).filter((token) => token !== undefined);
    this.after = widest(before.map(shown), cap);
    this.own = widest(
      tokens.map((token) => shown(token.text)),
      cap,
    );
    this.width = this.own + (this.after > 0 ? this.after + ARROW : 0) + 4;
  }

  /** Beside rows that begin at y, left of `right`. */
  draw(right: number, y: number, pitch: number, marked: number | null = null): string {
    const skip = every(this.tokens.length, pitch, ROW_PITCH);
    return this.tokens
      .map((token, row) => {
        const near = marked !== null && row !== marked && Math.abs(row - marked) * pitch < ROW_PITCH;
        if (row !== marked && (row % skip !== 0 || near)) return '';
        return this.one(token, right - 4, y + (row + 0.5) * pitch + 2.8, row === marked);
      })
      .join('');
  }

  /** What the two columns of the target are, in as many words as fit. */
  heading(right: number, top: number, pitch: number): string {
    const fitting = ['after → predicting', 'after → next'].find((words) => measure(words, SIZE) <= right - 4);
    if (this.after === 0 || fitting === undefined) return '';
    const y = top - Math.max(4, 8.5 - pitch / 2); // above the first label, which may stand higher than its row
    return text(right - 4, y, fitting, { fill: this.sheet.theme.quiet, anchor: 'end' });
  }

  private one(token: Token, right: number, y: number, bold: boolean): string {
    const { theme } = this.sheet;
    const fill = bold ? theme.accent : theme.text;
    const own = cut(shown(token.text), this.own + 0.01, SIZE);
    if (token.after === undefined) return text(right, y, own, { fill, bold, anchor: 'end' });
    const left = right - this.own;
    return (
      text(left - ARROW, y, cut(shown(token.after), this.after + 0.01, SIZE), {
        fill: bold ? fill : theme.quiet,
        anchor: 'end',
      }) +
      text(left - ARROW / 2, y, '→', { fill: theme.quiet, anchor: 'middle' }) +
      text(left, y, own, { fill, bold })
    );
  }
}

/** Slanted labels above columns. */
export class ColumnLabels {
  private readonly longest: number;
  readonly height: number;
  /** How far the last label reaches beyond its column. */
  readonly overhang: number;

  constructor(
    private readonly sheet: Sheet,
    private readonly texts: string[],
    cap = 58,
  ) {
    this.longest = widest(texts, cap);
    this.height = this.longest * SINE + 8;
    this.overhang = this.longest * SINE + 2;
  }

  /** Above columns that begin at x; `bottom` is where the matrix begins. */
  draw(x: number, bottom: number, pitch: number, marked: number | null = null): string {
    const skip = every(this.texts.length, pitch, COLUMN_PITCH);
    return this.texts
      .map((one, col) => {
        if (col % skip !== 0) return '';
        const fill = col === marked ? this.sheet.theme.accent : this.sheet.theme.text;
        const label = cut(one, this.longest + 0.01);
        return text(x + (col + 0.5) * pitch + 2, bottom - 3, label, { fill, rotate: -SLANT });
      })
      .join('');
  }
}

/** How tall rows are: room for a label each while they are few; else a fixed height for all. */
export function rowPitch(count: number, full: number, tallest = 9): number {
  return Math.min(tallest, full / count);
}
