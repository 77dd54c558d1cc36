// What one figure is drawn on: its width and colours, and what the legend and the caption have to say afterwards.
import type { Scale } from './scales';
import { LIGHT, DARK, type Theme } from './theme';
import type { Options } from './types';

/** Points: 72 to an inch, so that 8 are 8 pt when the figure is printed at its own size. */
export const POINTS_PER_MM = 72 / 25.4;
export const MARGIN = 8;
export const LARGEST_VECTOR = 2500;

/** A view's answer: what it drew, how tall that is, and what it says in words. */
export interface Drawing {
  title: string;
  description: string[];
  body: string;
  height: number;
}

/** A sign and its meaning, for the legend. */
export interface Key {
  meaning: string;
  look: Record<string, string | number>;
}

export class Sheet {
  readonly theme: Theme;
  readonly millimetres: number;
  /** Of the picture inside the margins, in points. */
  readonly width: number;
  readonly caption: boolean;
  cells = 0;
  signed = false;
  /** Whether a ± stands anywhere. */
  limits = false;
  weights = false;
  activations = false;
  masked = false;
  /** Whether anything is hatched. */
  hatches = false;
  missing = false;
  probability: Scale | null = null;
  readonly notes: string[] = [];
  /** What the legend says beside the usual. */
  readonly keys: Key[] = [];
  private readonly bins = new Map<string, number[]>();

  constructor(
    options: Options,
    /** Cells as pictures instead of rectangles. */
    readonly pictures: boolean,
    /** Part of every id, so that figures in one page do not take each other's patterns. */
    readonly key: string,
  ) {
    this.theme = options.dark ? DARK : LIGHT;
    this.millimetres = options.width ?? 178;
    this.width = this.millimetres * POINTS_PER_MM - 2 * MARGIN;
    this.caption = options.caption ?? true;
  }

  get narrow(): boolean {
    return this.millimetres < 120;
  }

  get hatch(): string {
    return `hatch-${this.key}`;
  }

  note(sentence: string): void {
    if (!this.notes.includes(sentence)) this.notes.push(sentence);
  }

  binned(count: number, what: 'columns' | 'rows', together: number): void {
    const found = this.bins.get(`${count} ${what}`) ?? [];
    if (!found.includes(together))
      this.bins.set(
        `${count} ${what}`,
        [...found, together].sort((a, b) => a - b),
      );
  }

  /** Every sentence that the caption needs beside the view's own. */
  remarks(): string[] {
    const binned = [...this.bins].map(([what, sizes]) => `${what}, ${sizes.join(' or ')} to a bin`);
    const bins = binned.length > 0 ? [`A bin shows its mean: ${binned.join('; ')}.`] : [];
    const scale = this.limits ? ['± is where the colours end; 99.5 % of the values lie within.'] : [];
    return [...this.notes, ...bins, ...scale];
  }
}
