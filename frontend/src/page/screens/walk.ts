// The guided walk: which view comes after which. The step bar, the map and the keys are made from this table.
import type { Kind } from '../data/places';
import type { Exploration, Side } from '../data/trace';
import { placeOf } from '../state/fitting';
import type { Selection, Tab } from '../state/selection';

export interface Step {
  title: string;
  screen: string;
  kind?: Kind;
  /** Whose tokens it is about, where any attention of theirs will do. */
  side?: Side;
  /** A tensor without which there is nothing to show: a file may have left it out. */
  needs?: string;
  tab?: Tab;
  /** Whether it asks the model anew, which a saved page cannot. */
  asks?: boolean;
}

export const STEPS: Step[] = [
  { title: 'A sentence goes in', screen: 'sentence' },
  { title: 'Source tokens', screen: 'tokens', side: 'source' },
  { title: 'One token looks around', screen: 'attention', kind: 'encoder-self', tab: 'word' },
  { title: 'All tokens at once', screen: 'attention', kind: 'encoder-self', tab: 'matrix' },
  { title: 'Many heads', screen: 'attention', kind: 'encoder-self', tab: 'heads' },
  { title: 'Heads compared', screen: 'attention', kind: 'encoder-self', tab: 'compare' },
  {
    title: 'Add, normalise, feed forward',
    screen: 'sublayers',
    side: 'source',
    needs: 'encoder.layers.0.feed_forward_norm.residual',
  },
  { title: 'The bridge', screen: 'bridge' },
  { title: 'Target tokens', screen: 'tokens', side: 'target' },
  { title: 'The decoder looks back', screen: 'attention', kind: 'decoder-self', tab: 'matrix' },
  { title: 'The decoder looks at the source', screen: 'attention', kind: 'cross', tab: 'matrix' },
  { title: 'One word, across', screen: 'attention', kind: 'cross', tab: 'word' },
  { title: 'Which head finds the word', screen: 'attention', kind: 'cross', tab: 'compare' },
  {
    title: 'The rest of a decoder layer',
    screen: 'sublayers',
    side: 'target',
    needs: 'decoder.layers.0.feed_forward_norm.residual',
  },
  { title: 'Token by token', screen: 'film', kind: 'decoder-self' },
  { title: 'The next token', screen: 'softmax', side: 'target', needs: 'output.likeliest' },
  { title: 'Every hypothesis', screen: 'beam' },
  { title: 'What if?', screen: 'whatif', asks: true },
  { title: 'Who is “it”?', screen: 'who', asks: true },
];

/** The steps that a trace has something for: a model may have no attention of a kind. */
export function stepsOf(exploration: Exploration | null): Step[] {
  if (exploration === null) return STEPS.slice(0, 1);
  const kinds = new Set(exploration.places.map((place) => place.kind));
  const fits = (step: Step) =>
    !exploration.slim || step.screen === 'sentence' || (step.screen === 'attention' && step.tab !== 'word');
  const there = (step: Step) => step.needs === undefined || exploration.has(step.needs);
  return STEPS.filter(
    (step) =>
      fits(step) &&
      (step.kind === undefined || kinds.has(step.kind)) &&
      there(step) &&
      (step.asks !== true || exploration.live),
  );
}

/** Which step a selection is at: the one that says most of it. */
export function stepAt(steps: Step[], selection: Selection, exploration: Exploration | null): number {
  const place = exploration === null ? null : placeOf(exploration, selection);
  const fits = (step: Step): number => {
    if (step.screen !== selection.v) return -1;
    const where = place !== null && (step.kind === place.kind || step.side === place.queries) ? 2 : 0;
    return where + (step.tab === undefined ? 0 : step.tab === selection.tab ? 1 : 0);
  };
  let best = 0;
  steps.forEach((step, index) => {
    if (fits(step) > fits(steps[best] as Step)) best = index;
  });
  return best;
}

/** What has to change for a step. Layer, head and token stay where they can. */
export function to(step: Step, selection: Selection, exploration: Exploration | null): Partial<Selection> {
  const patch: Partial<Selection> = { v: step.screen, k: null, n: null, part: '' };
  if (step.tab !== undefined) patch.tab = step.tab;
  if ((step.kind === undefined && step.side === undefined) || exploration === null) return patch;
  const now = placeOf(exploration, selection);
  if (step.side !== undefined && now?.queries === step.side) return patch;
  const fitting = exploration.places.filter((place) => place.kind === step.kind || place.queries === step.side);
  const same = fitting.find((place) => place.layer === now?.layer) ?? fitting[0];
  return same === undefined ? patch : { ...patch, at: same.name };
}
