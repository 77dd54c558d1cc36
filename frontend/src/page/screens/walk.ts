// The guided walk: which view comes after which. The step bar, the map and the keys are made from this table.
import type { Kind } from '../data/places';
import type { Exploration } from '../data/trace';
import { placeOf } from '../state/fitting';
import type { Selection, Tab } from '../state/selection';

export interface Step {
  title: string;
  screen: string;
  kind?: Kind;
  tab?: Tab;
  /** Whether it asks the model anew, which a saved page cannot. */
  asks?: boolean;
}

export const STEPS: Step[] = [
  { title: 'A sentence goes in', screen: 'sentence' },
  { title: 'Source tokens', screen: 'tokens', kind: 'encoder-self' },
  { title: 'One token looks around', screen: 'attention', kind: 'encoder-self', tab: 'word' },
  { title: 'All tokens at once', screen: 'attention', kind: 'encoder-self', tab: 'matrix' },
  { title: 'Many heads', screen: 'attention', kind: 'encoder-self', tab: 'heads' },
  { title: 'Heads compared', screen: 'attention', kind: 'encoder-self', tab: 'compare' },
  { title: 'The bridge', screen: 'bridge' },
  { title: 'Target tokens', screen: 'tokens', kind: 'decoder-self' },
  { title: 'The decoder looks back', screen: 'attention', kind: 'decoder-self', tab: 'matrix' },
  { title: 'The decoder looks at the source', screen: 'attention', kind: 'cross', tab: 'matrix' },
  { title: 'One word, across', screen: 'attention', kind: 'cross', tab: 'word' },
  { title: 'Which head finds the word', screen: 'attention', kind: 'cross', tab: 'compare' },
  { title: 'Token by token', screen: 'film', kind: 'decoder-self' },
  { title: 'Every hypothesis', screen: 'beam' },
  { title: 'Who is “it”?', screen: 'who', asks: true },
];

/** The steps that a trace has something for: a model may have no attention of a kind. */
export function stepsOf(exploration: Exploration | null): Step[] {
  if (exploration === null) return STEPS.slice(0, 1);
  const kinds = new Set(exploration.places.map((place) => place.kind));
  if (!kinds.has('decoder-self')) kinds.delete('decoder-self');
  const has = (step: Step) => step.kind === undefined || kinds.has(step.kind) || step.screen === 'tokens';
  return STEPS.filter((step) => has(step) && (step.asks !== true || exploration.live));
}

/** Which step a selection is at: the one that says most of it. */
export function stepAt(steps: Step[], selection: Selection, exploration: Exploration | null): number {
  const place = exploration === null ? null : placeOf(exploration, selection);
  const fits = (step: Step): number => {
    if (step.screen !== selection.v) return -1;
    const kind = step.kind === undefined || place === null ? 0 : sameSide(step, place.kind);
    return kind + (step.tab === undefined ? 0 : step.tab === selection.tab ? 1 : 0);
  };
  let best = 0;
  steps.forEach((step, index) => {
    if (fits(step) > fits(steps[best] as Step)) best = index;
  });
  return best;
}

function sameSide(step: Step, kind: Kind): number {
  if (step.kind === kind) return 2;
  return step.screen === 'tokens' && (step.kind === 'encoder-self') === (kind === 'encoder-self') ? 2 : 0;
}

/** What has to change for a step. Layer, head and token stay where they can. */
export function to(step: Step, selection: Selection, exploration: Exploration | null): Partial<Selection> {
  const patch: Partial<Selection> = { v: step.screen, k: null };
  if (step.tab !== undefined) patch.tab = step.tab;
  if (step.kind === undefined || exploration === null) return patch;
  const now = placeOf(exploration, selection);
  const kind = step.kind === 'decoder-self' && step.screen === 'tokens' ? null : step.kind;
  const fitting = exploration.places.filter((place) => (kind === null ? place.queries === 'target' : place.kind === kind));
  const same = fitting.find((place) => place.layer === now?.layer) ?? fitting[0];
  return same === undefined ? patch : { ...patch, at: same.name };
}
