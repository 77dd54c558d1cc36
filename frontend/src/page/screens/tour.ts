// The guided tour: the order of the screens. The step bar, the map and the keys use this table.
import type { Kind } from '../data/places';
import type { Exploration, Side } from '../data/trace';
import { selectedPlace } from '../state/validSelection';
import type { Selection, Tab } from '../state/selection';

export interface Step {
  title: string;
  screen: string;
  kind?: Kind;
  /** The side of the selected token, if any attention of that side will do. */
  side?: Side;
  /** A tensor that the step needs: a file may not contain it. */
  needs?: string;
  tab?: Tab;
  /** Whether it runs the model, which a saved page cannot. */
  needsServer?: boolean;
}

export const STEPS: Step[] = [
  { title: 'Sentence and translation', screen: 'sentence' },
  { title: 'Source tokens', screen: 'tokens', side: 'source' },
  { title: 'Attention of one token', screen: 'attention', kind: 'encoder-self', tab: 'token' },
  { title: 'All tokens at once', screen: 'attention', kind: 'encoder-self', tab: 'matrix' },
  { title: 'Many heads', screen: 'attention', kind: 'encoder-self', tab: 'heads' },
  { title: 'Heads compared', screen: 'attention', kind: 'encoder-self', tab: 'compare' },
  {
    title: 'Residual, norm, feed-forward',
    screen: 'sublayers',
    side: 'source',
    needs: 'encoder.layers.0.feed_forward_norm.residual',
  },
  { title: 'From encoder to decoder', screen: 'memory' },
  { title: 'Target tokens', screen: 'tokens', side: 'target' },
  { title: 'Decoder self-attention', screen: 'attention', kind: 'decoder-self', tab: 'matrix' },
  { title: 'Cross-attention', screen: 'attention', kind: 'cross', tab: 'matrix' },
  { title: 'Cross-attention of one token', screen: 'attention', kind: 'cross', tab: 'token' },
  { title: 'Cross-attention heads compared', screen: 'attention', kind: 'cross', tab: 'compare' },
  {
    title: 'The rest of a decoder layer',
    screen: 'sublayers',
    side: 'target',
    needs: 'decoder.layers.0.feed_forward_norm.residual',
  },
  { title: 'Decoding step by step', screen: 'decoding', kind: 'decoder-self' },
  { title: 'The next token', screen: 'softmax', side: 'target', needs: 'output.likeliest' },
  { title: 'Beam search', screen: 'beam' },
  { title: 'What if', screen: 'whatif', needsServer: true },
  { title: 'Pronoun resolution', screen: 'pronoun', needsServer: true },
];

/** The steps that a trace has the tensors for. */
export function stepsOf(exploration: Exploration | null): Step[] {
  if (exploration === null) return STEPS.slice(0, 1);
  const kinds = new Set(exploration.places.map((place) => place.kind));
  const fits = (step: Step) =>
    !exploration.weightsOnly || step.screen === 'sentence' || (step.screen === 'attention' && step.tab !== 'token');
  const present = (step: Step) => step.needs === undefined || exploration.has(step.needs);
  return STEPS.filter(
    (step) =>
      fits(step) &&
      (step.kind === undefined || kinds.has(step.kind)) &&
      present(step) &&
      (step.needsServer !== true || exploration.live),
  );
}

/** The index of the step that matches a selection best. */
export function stepAt(steps: Step[], selection: Selection, exploration: Exploration | null): number {
  const place = exploration === null ? null : selectedPlace(exploration, selection);
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

/** The change of the selection that leads to a step. Layer, head and token stay where possible. */
export function patchFor(step: Step, selection: Selection, exploration: Exploration | null): Partial<Selection> {
  const patch: Partial<Selection> = { v: step.screen, k: null, n: null, part: '' };
  if (step.tab !== undefined) patch.tab = step.tab;
  if ((step.kind === undefined && step.side === undefined) || exploration === null) return patch;
  const now = selectedPlace(exploration, selection);
  if (step.side !== undefined && now?.queries === step.side) return patch;
  const fitting = exploration.places.filter((place) => place.kind === step.kind || place.queries === step.side);
  const same = fitting.find((place) => place.layer === now?.layer) ?? fitting[0];
  return same === undefined ? patch : { ...patch, at: same.name };
}
