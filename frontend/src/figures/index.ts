// Every figure by its name: data in, an SVG out. The same in a page and in Python, which runs this in QuickJS.
import { descriptionOf, page } from './page';
import { LARGEST_VECTOR, Sheet, type Drawing } from './sheet';
import type { Options } from './types';
import { attention } from './views/attention';
import { beam } from './views/beam';
import { bridge } from './views/bridge';
import { concat } from './views/concat';
import { film } from './views/film';
import { heads, headsOut } from './views/heads';
import { multiHead } from './views/multiHead';
import { qkv } from './views/qkv';
import { selfAttention } from './views/selfAttention';
import { softmax } from './views/softmax';

export { measure } from './widths';

// A view takes the data that its name asks for; the caller has looked it up by the same name.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
type View = (data: any, sheet: Sheet) => Drawing;

const VIEWS: Record<string, View> = {
  qkv,
  'self-attention': selfAttention,
  heads,
  'heads-out': headsOut,
  concat,
  'multi-head': multiHead,
  bridge,
  attention,
  film,
  beam,
  softmax,
};

export const views: string[] = Object.keys(VIEWS);

export function render(view: string, data: unknown, options: Options = {}): string {
  const { drawing, sheet } = drawn(view, data, options);
  return page(drawing, sheet);
}

/** What the figure says in words. */
export function describe(view: string, data: unknown, options: Options = {}): string {
  const { drawing, sheet } = drawn(view, data, options);
  return descriptionOf(drawing, sheet);
}

function drawn(view: string, data: unknown, options: Options): { drawing: Drawing; sheet: Sheet } {
  const draw = VIEWS[view];
  if (draw === undefined) throw new Error(`There is no view ${view}; there are ${views.join(', ')}.`);
  const key = hash(JSON.stringify([view, options, data], (name, value: unknown) => (name === 'values' ? null : value)));
  let sheet = new Sheet(options, false, key);
  let drawing = draw(data, sheet);
  if (sheet.cells > LARGEST_VECTOR) {
    sheet = new Sheet(options, true, key);
    drawing = draw(data, sheet);
  }
  return { drawing, sheet };
}

/** FNV-1a: a short name for what is drawn. */
function hash(content: string): string {
  let h = 0x811c9dc5;
  for (let i = 0; i < content.length; i++) h = Math.imul(h ^ content.charCodeAt(i), 0x01000193) >>> 0;
  return h.toString(36);
}
