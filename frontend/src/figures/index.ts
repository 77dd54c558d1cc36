// Renderer of all figures: view name and data in, SVG out. Used by the explorer, and by Python through QuickJS.
import { Canvas, MAX_VECTOR_CELLS, type Drawing } from './canvas';
import { descriptionOf, svgDocument } from './svgDocument';
import type { Options } from './types';
import { attention } from './views/attention';
import { beam } from './views/beam';
import { concat } from './views/concat';
import { crossAttention } from './views/crossAttention';
import { decodingSteps } from './views/decodingSteps';
import { heads, headsOut } from './views/heads';
import { multiHead } from './views/multiHead';
import { qkv } from './views/qkv';
import { selfAttention } from './views/selfAttention';
import { softmax } from './views/softmax';

export { textWidth } from './textWidth';

// Each view has its own type of data (see types.ts); the caller passes the data of the view it names.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
type View = (data: any, canvas: Canvas) => Drawing;

const VIEWS: Record<string, View> = {
  qkv,
  'self-attention': selfAttention,
  heads,
  'heads-out': headsOut,
  concat,
  'multi-head': multiHead,
  'cross-attention': crossAttention,
  attention,
  'decoding-steps': decodingSteps,
  beam,
  softmax,
};

export const views: string[] = Object.keys(VIEWS);

export function render(view: string, data: unknown, options: Options = {}): string {
  const { drawing, canvas } = drawView(view, data, options);
  return svgDocument(drawing, canvas);
}

/** The description of a figure: its caption and alternative text. */
export function describe(view: string, data: unknown, options: Options = {}): string {
  const { drawing, canvas } = drawView(view, data, options);
  return descriptionOf(drawing, canvas);
}

function drawView(view: string, data: unknown, options: Options): { drawing: Drawing; canvas: Canvas } {
  const draw = VIEWS[view];
  if (draw === undefined) throw new Error(`There is no view ${view}; choose one of ${views.join(', ')}.`);
  const id = hash(JSON.stringify([view, options, data], (name, value: unknown) => (name === 'values' ? null : value)));
  let canvas = new Canvas(options, false, id);
  let drawing = draw(data, canvas);
  if (canvas.cells > MAX_VECTOR_CELLS) {
    canvas = new Canvas(options, true, id); // too many cells for rectangles: draw again with images
    drawing = draw(data, canvas);
  }
  return { drawing, canvas };
}

/** FNV-1a hash of the input, as a short id. */
function hash(content: string): string {
  let h = 0x811c9dc5;
  for (let i = 0; i < content.length; i++) h = Math.imul(h ^ content.charCodeAt(i), 0x01000193) >>> 0;
  return h.toString(36);
}
