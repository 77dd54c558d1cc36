// The figures that the server can draw for a view, and their options.
import type { Exploration } from '../data/trace';
import { selectedPlace } from '../state/validSelection';
import type { Selection } from '../state/selection';

/** A figure by its name, with the options that `glassformer.inspection.figures` takes. */
export interface FigureRequest {
  view: string;
  at?: string;
  head?: string;
  token?: string;
}

type OptionName = 'at' | 'head' | 'token';
const OPTIONS: Record<string, OptionName[]> = {
  qkv: ['at', 'head'],
  'self-attention': ['at', 'head'],
  attention: ['at', 'head', 'token'],
  heads: ['at'],
  'heads-out': ['at'],
  concat: ['at'],
  'multi-head': ['at'],
  'cross-attention': [],
  'decoding-steps': ['at'],
  beam: [],
  softmax: ['token'],
};

/** Screen, or tab of the attention screen -> figures, the most fitting first. */
const FIGURES_OF_VIEW: Record<string, string[]> = {
  sentence: ['multi-head'],
  token: ['self-attention', 'qkv', 'attention'],
  matrix: ['attention', 'self-attention', 'qkv'],
  heads: ['heads-out', 'heads', 'concat', 'multi-head', 'attention'],
  compare: ['attention'],
  memory: ['cross-attention'],
  decoding: ['decoding-steps'],
  beam: ['beam'],
  softmax: ['softmax'],
};
const ALL_HEADS = ['heads', 'compare'];

/** Options of the story page: the selected attention, head and position. */
export function storyOf(exploration: Exploration, selection: Selection, dark: string): Record<string, string> {
  const place = selectedPlace(exploration, selection);
  return { dark, ...(place === null ? {} : { at: place.name, head: String(selection.h), token: String(selection.q) }) };
}

export function figuresOf(exploration: Exploration, selection: Selection): FigureRequest[] {
  const view = selection.v === 'attention' ? selection.tab : selection.v;
  const place = selectedPlace(exploration, selection);
  const values = {
    at: place?.name,
    head: ALL_HEADS.includes(view) ? undefined : String(selection.h),
    token: String(selection.q),
  };
  const searched = exploration.manifest.tree != null;
  return (FIGURES_OF_VIEW[view] ?? [])
    .filter((name) => name !== 'beam' || searched)
    .map((name) => {
      const options = (OPTIONS[name] ?? []).filter(
        (one) =>
          values[one] !== undefined && !(one === 'at' && name === 'decoding-steps' && place?.queries !== 'target'),
      );
      // A source position does not apply to the output.
      const fits = options.filter((one) => one !== 'token' || name !== 'softmax' || place?.queries === 'target');
      return { view: name, ...Object.fromEntries(fits.map((one) => [one, values[one]])) };
    });
}
