// The vectors of a screen, step by step: the tensors whose difference it shows.
import type { Exploration, Side } from '../../data/trace';
import { selectedPlace } from '../../state/validSelection';
import type { Selection } from '../../state/selection';
import { texts } from '../../strings';
import { layerOf, ORDER, sideOf } from '../sublayers/layer';

export interface Step {
  tensor: string;
  label: string;
}

export interface Steps {
  /** Title of the screen. */
  title: string;
  /** The side that the positions belong to. */
  side: Side;
  steps: Step[];
}

export function vectorsOf(exploration: Exploration, selection: Selection): Steps {
  const { title, side, names } = named(exploration, selection);
  return {
    title,
    side,
    steps: names.filter((tensor) => exploration.has(tensor)).map((tensor) => ({ tensor, label: labelOf(tensor) })),
  };
}

function named(exploration: Exploration, selection: Selection): { title: string; side: Side; names: string[] } {
  const screens = texts.screen;
  const place = selectedPlace(exploration, selection);
  const made = (kind: string) =>
    exploration.places.filter((one) => one.kind === kind).flatMap(({ name }) => [`${name}.k`, `${name}.v`]);
  const cells = exploration.sublayers.filter(({ part }) => part === 'recurrence').map(({ name }) => `${name}.cell`);
  if (selection.v === 'memory')
    return { title: screens.memory.title, side: 'source', names: ['memory', ...made('cross')] };
  if (selection.v === 'decoding')
    return { title: screens.decoding.title, side: 'target', names: [...made('decoder-self'), ...cells] };
  const { stack, layer } = place === null ? { stack: 'encoder' as const, layer: 0 } : layerOf(place);
  const side = sideOf(stack);
  if (selection.v === 'tokens')
    return {
      title: screens.tokens.title,
      side,
      names: ['embedding.output', 'position.output', 'input'].map((one) => `${stack}.${one}`),
    };
  const norm = '_norm.output';
  const around = ['.hidden', '.output', '_norm.residual'];
  const order = exploration.manifest.config.norm_first ? [norm, ...around] : [...around, norm];
  return {
    title: screens.sublayers.at(stack, layer),
    side,
    names: ORDER.flatMap((part) => order.map((one) => `${stack}.layers.${layer}.${part}${one}`)),
  };
}

function labelOf(tensor: string): string {
  const made = /layers\.(\d+)\.\w+\.(k|v|cell)$/.exec(tensor);
  if (made)
    return texts.vectors.made(
      (made[2] as string).replace(/^.$/, (letter) => letter.toUpperCase()),
      made[1] as string,
    );
  return texts.vectors.steps[tensor.replace(/^\w+\.(layers\.\d+\.)?/, '')] ?? tensor;
}
