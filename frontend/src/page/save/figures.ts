// Which pictures of the server's fit a view, and what they are told.
import type { Exploration } from '../data/trace';
import { placeOf } from '../state/fitting';
import type { Selection } from '../state/selection';

/** A figure by its name, with the options that `glassformer.inspection.figures` takes. */
export interface FigureAsked {
  view: string;
  at?: string;
  head?: string;
  token?: string;
}

type Told = 'at' | 'head' | 'token';
const TELLS: Record<string, Told[]> = {
  qkv: ['at', 'head'],
  'self-attention': ['at', 'head'],
  attention: ['at', 'head', 'token'],
  heads: ['at'],
  'heads-out': ['at'],
  concat: ['at'],
  'multi-head': ['at'],
  bridge: [],
  film: ['at'],
  beam: [],
  softmax: ['token'],
};

/** A screen, or a tab of the attention room -> figures, the likeliest first. */
const FITTING: Record<string, string[]> = {
  sentence: ['multi-head'],
  word: ['self-attention', 'qkv', 'attention'],
  matrix: ['attention', 'self-attention', 'qkv'],
  heads: ['heads-out', 'heads', 'concat', 'multi-head', 'attention'],
  compare: ['attention'],
  bridge: ['bridge'],
  film: ['film'],
  beam: ['beam'],
  softmax: ['softmax'],
};
const ALL_HEADS = ['heads', 'compare'];

/** What the page with all pictures is told: the attention, the head and the position that are looked at. */
export function storyOf(exploration: Exploration, selection: Selection, dark: string): Record<string, string> {
  const place = placeOf(exploration, selection);
  return { dark, ...(place === null ? {} : { at: place.name, head: String(selection.h), token: String(selection.q) }) };
}

export function figuresOf(exploration: Exploration, selection: Selection): FigureAsked[] {
  const view = selection.v === 'attention' ? selection.tab : selection.v;
  const place = placeOf(exploration, selection);
  const given = {
    at: place?.name,
    head: ALL_HEADS.includes(view) ? undefined : String(selection.h),
    token: String(selection.q),
  };
  const searched = exploration.manifest.tree !== null;
  return (FITTING[view] ?? [])
    .filter((name) => name !== 'beam' || searched)
    .map((name) => {
      const told = (TELLS[name] ?? []).filter(
        (one) => given[one] !== undefined && !(one === 'at' && name === 'film' && place?.queries !== 'target'),
      );
      // A position of the source is none of the target's.
      const fits = told.filter((one) => one !== 'token' || name !== 'softmax' || place?.queries === 'target');
      return { view: name, ...Object.fromEntries(fits.map((one) => [one, given[one]])) };
    });
}
