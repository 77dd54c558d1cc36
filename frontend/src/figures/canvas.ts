// Canvas of one figure: width and colours, and a record of what was drawn, for the legend and the caption.
import type { Scale } from './scales';
import { DARK, LIGHT, type Theme } from './theme';
import type { Options } from './types';

/** The unit is a point, 1/72 inch: font size 8 is 8 pt if the figure is printed at its own size. */
export const POINTS_PER_MM = 72 / 25.4;
export const MARGIN = 8;
/** With more cells than this, matrices are embedded as images instead of rectangles. */
export const MAX_VECTOR_CELLS = 2500;

/** The result of a view: SVG elements, their height, a title and a description. */
export interface Drawing {
  title: string;
  description: string[];
  body: string;
  height: number;
}

/** A legend entry of a view: a swatch and its meaning. */
export interface LegendItem {
  meaning: string;
  style: Record<string, string | number>;
}

export class Canvas {
  readonly theme: Theme;
  readonly millimetres: number;
  /** Width within the margins, in points. */
  readonly width: number;
  readonly caption: boolean;
  /** Number of cells drawn. */
  cells = 0;
  // Whether the figure contains: a signed colour scale, ± limits, weight matrices, activations, masked cells,
  // hatching (of masked cells or anything else), matrices without saved numbers.
  signed = false;
  limits = false;
  weights = false;
  activations = false;
  masked = false;
  hatches = false;
  missing = false;
  /** The scale of attention weights, if there are any. */
  probability: Scale | null = null;
  readonly notes: string[] = [];
  /** Legend entries of this view, after the general ones. */
  readonly legendItems: LegendItem[] = [];
  private readonly bins = new Map<string, number[]>();

  constructor(
    options: Options,
    /** Draw cells as embedded images instead of rectangles. */
    readonly asImages: boolean,
    /** Part of every element id, so that the ids of several figures on one page differ. */
    readonly id: string,
  ) {
    this.theme = options.dark ? DARK : LIGHT;
    this.millimetres = options.width ?? 178;
    this.width = this.millimetres * POINTS_PER_MM - 2 * MARGIN;
    this.caption = options.caption ?? true;
  }

  get narrow(): boolean {
    return this.millimetres < 120;
  }

  /** Id of the hatching pattern. */
  get hatch(): string {
    return `hatch-${this.id}`;
  }

  /** Adds a sentence to the caption, once. */
  note(sentence: string): void {
    if (!this.notes.includes(sentence)) this.notes.push(sentence);
  }

  /** Records for the caption that rows or columns are drawn in bins. */
  noteBins(count: number, axis: 'columns' | 'rows', perBin: number): void {
    const sizes = this.bins.get(`${count} ${axis}`) ?? [];
    if (!sizes.includes(perBin))
      this.bins.set(
        `${count} ${axis}`,
        [...sizes, perBin].sort((a, b) => a - b),
      );
  }

  /** The sentences of the caption after the view's own description. */
  captionNotes(): string[] {
    const binned = [...this.bins].map(([axis, sizes]) => `${axis}, ${sizes.join(' or ')} per bin`);
    const bins = binned.length > 0 ? [`Each bin shows a mean: ${binned.join('; ')}.`] : [];
    const scale = this.limits ? ['± is the limit of the colour scale; 99.5 % of the values are within it.'] : [];
    return [...this.notes, ...bins, ...scale];
  }
}
