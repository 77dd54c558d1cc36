// Token labels of matrix rows and columns: each token if they fit, else every second, third, ...
import type { Canvas } from './canvas';
import { FONT_SIZE, text, tokenText, truncate } from './text';
import { textWidth } from './textWidth';
import type { Token } from './types';

const MIN_ROW_PITCH = 8.8;
const MIN_COLUMN_PITCH = 10.2;
const ARROW_WIDTH = 10;
const SLANT_DEGREES = 45;
const SLANT_SINE = 0.7071;

/** Every how many positions a label fits, given their distance; above 40 tokens at least every second. */
export function labelStride(count: number, pitch: number, minPitch: number): number {
  const fits = Math.max(1, Math.ceil(minPitch / pitch - 1e-6));
  return count > 40 ? Math.max(2, fits) : fits;
}

function widest(texts: string[], maxWidth: number): number {
  return Math.min(maxWidth, Math.max(0, ...texts.map((one) => textWidth(one, FONT_SIZE))));
}

/** Labels left of rows. Target positions have two columns: the input token and the token to predict. */
export class RowLabels {
  private readonly afterWidth: number;
  private readonly tokenWidth: number;
  readonly width: number;

  constructor(
    private readonly canvas: Canvas,
    private readonly tokens: Token[],
    maxWidth = canvas.narrow ? 34 : 54,
  ) {
    const inputs = tokens.map((token) => token.after).filter((token) => token !== undefined);
    this.afterWidth = widest(inputs.map(tokenText), maxWidth);
    this.tokenWidth = widest(
      tokens.map((token) => tokenText(token.text)),
      maxWidth,
    );
    this.width = this.tokenWidth + (this.afterWidth > 0 ? this.afterWidth + ARROW_WIDTH : 0) + 4;
  }

  /** Draws the labels of rows that begin at `y`, left of `right`. */
  draw(right: number, y: number, pitch: number, marked: number | null = null): string {
    const stride = labelStride(this.tokens.length, pitch, MIN_ROW_PITCH);
    return this.tokens
      .map((token, row) => {
        const near = marked !== null && row !== marked && Math.abs(row - marked) * pitch < MIN_ROW_PITCH;
        if (row !== marked && (row % stride !== 0 || near)) return '';
        return this.label(token, right - 4, y + (row + 0.5) * pitch + 2.8, row === marked);
      })
      .join('');
  }

  /** The heading of the two columns of target labels, in the longest wording that fits. */
  heading(right: number, top: number, pitch: number): string {
    const heading = ['input → prediction', 'input → next'].find((words) => textWidth(words, FONT_SIZE) <= right - 4);
    if (this.afterWidth === 0 || heading === undefined) return '';
    const y = top - Math.max(4, 8.5 - pitch / 2); // above the first label, which may be higher than its row
    return text(right - 4, y, heading, { fill: this.canvas.theme.quiet, anchor: 'end' });
  }

  private label(token: Token, right: number, y: number, bold: boolean): string {
    const { theme } = this.canvas;
    const fill = bold ? theme.accent : theme.text;
    const label = truncate(tokenText(token.text), this.tokenWidth + 0.01, FONT_SIZE);
    if (token.after === undefined) return text(right, y, label, { fill, bold, anchor: 'end' });
    const left = right - this.tokenWidth;
    return (
      text(left - ARROW_WIDTH, y, truncate(tokenText(token.after), this.afterWidth + 0.01, FONT_SIZE), {
        fill: bold ? fill : theme.quiet,
        anchor: 'end',
      }) +
      text(left - ARROW_WIDTH / 2, y, '→', { fill: theme.quiet, anchor: 'middle' }) +
      text(left, y, label, { fill, bold })
    );
  }
}

/** Slanted labels above columns. */
export class ColumnLabels {
  private readonly labelWidth: number;
  readonly height: number;
  /** Horizontal extent of the last label beyond its column. */
  readonly overhang: number;

  constructor(
    private readonly canvas: Canvas,
    private readonly texts: string[],
    maxWidth = 58,
  ) {
    this.labelWidth = widest(texts, maxWidth);
    this.height = this.labelWidth * SLANT_SINE + 8;
    this.overhang = this.labelWidth * SLANT_SINE + 2;
  }

  /** Draws the labels of columns that begin at `x`; `bottom` is the top of the matrix. */
  draw(x: number, bottom: number, pitch: number, marked: number | null = null): string {
    const stride = labelStride(this.texts.length, pitch, MIN_COLUMN_PITCH);
    return this.texts
      .map((one, col) => {
        if (col % stride !== 0) return '';
        const fill = col === marked ? this.canvas.theme.accent : this.canvas.theme.text;
        const label = truncate(one, this.labelWidth + 0.01);
        return text(x + (col + 0.5) * pitch + 2, bottom - 3, label, { fill, rotate: -SLANT_DEGREES });
      })
      .join('');
  }
}

/** Height of one row: `maxPitch`, or less if the rows would exceed `maxHeight` together. */
export function rowPitch(count: number, maxHeight: number, maxPitch = 9): number {
  return Math.min(maxPitch, maxHeight / count);
}
