// All texts of the explorer: those of a screen are in the file with its name, the others here. The titles of the steps are
// in screens/tour.ts.
import type { Kind } from '../data/places';
import { attention } from './attention';
import { beam } from './beam';
import { decoding } from './decoding';
import { memory } from './memory';
import { pronoun } from './pronoun';
import { sentence } from './sentence';
import { softmax } from './softmax';
import { sublayers } from './sublayers';
import { tokens } from './tokens';
import { whatif } from './whatif';

export const texts = {
  title: 'glassformer',
  skip: 'Skip to content',
  serverGone: 'The server does not respond. Check that it is still running, then reload this page.',
  refused: (status: number) =>
    `The server responded with status ${status}. Reload this page; if that does not help, check the server’s log.`,
  kernelGone: 'The notebook’s kernel does not respond. It may be busy or stopped; run this cell again.',
  loading: 'Loading …',
  tracing: 'Tracing the sentence …',
  noServer: 'This is a saved trace of one sentence. To translate other sentences or to change the model, run:',
  exploreCommand: 'glassformer explore MODEL',

  source: 'Source',
  target: 'Translation',
  sentence: 'Source and translation; the selected token is shown on every screen',
  map: 'Map of the model',
  mapHint: 'Bars: ‖sub-layer output‖ / ‖residual sum‖, mean over the tokens.',
  goTo: 'Go to',
  stepOf: (i: number, n: number) => `step ${i} of ${n}`,
  previous: 'Previous',
  next: 'Next',
  steps: 'Steps',
  keys: 'Keys',
  close: 'Close',
  shortcuts: 'Single letters (N, P, S, ?) are shortcuts',
  badge: (difference: string) => `recomputed here, largest difference ${difference}`,
  badgeWrong: (difference: string) => `recomputed here, but it differs by ${difference}`,
  badgeWhat: 'The explorer has recomputed this step from the numbers shown and compared it with the model’s result.',
  badgeRounded:
    'The explorer has recomputed this step from the numbers shown. They were saved as float16 (three digits), so the difference is larger than in the model.',
  places: {
    'encoder-self': 'encoder self-attention',
    'decoder-self': 'decoder self-attention',
    cross: 'cross-attention',
  } as Record<Kind, string>,
  place: (kind: Kind, layer: number) =>
    ({
      'encoder-self': `Encoder layer ${layer} · self-attention`,
      'decoder-self': `Decoder layer ${layer} · self-attention`,
      cross: `Decoder layer ${layer} · cross-attention`,
    })[kind],
  parts: {
    self_attention: 'self-attention',
    cross_attention: 'cross-attention',
    feed_forward: 'feed-forward',
    recurrence: 'recurrent unit',
  } as Record<string, string>,
  partOf: (stack: string, layer: number, part: string) =>
    `${stack === 'encoder' ? 'Encoder' : 'Decoder'} layer ${layer} · ${texts.parts[part] ?? part}`,
  layer: 'Layer',
  head: 'Head',
  numbered: 'Layers and heads are numbered from 0.',
  table: 'Table',
  masked: 'masked',
  after: 'after',
  predicting: 'predicting',
  matricesFrom: (name: string) => `This what-if uses the matrices of ${name} instead of those shown.`,
  vectors: {
    title: (screen: string) => `${screen}: B − A`,
    intro:
      'How much the changes affect each vector of this screen: the length of the difference divided by the length of the vector before the changes. 0: nothing changed; 1 or 100 %: the difference is as long as the vector.',
    all: 'Every step at every position',
    one: 'Steps of',
    step: 'step',
    share: '‖B − A‖ / ‖A‖',
    none: 'This trace does not contain the vectors of this screen.',
    says: (step: string, token: string, share: string) => `${step} of ${token}: changed by ${share}`,
    sizes: (before: number, after: number) =>
      `A has ${before} positions here and B ${after}, because the changes made a sentence longer or shorter: there is no difference to compute. Below is B.`,
    made: (letter: string, layer: string) => `${letter} of layer ${layer}`,
    steps: {
      'embedding.output': 'embedding',
      'position.output': 'position',
      input: 'sum',
      memory: 'memory',
      'self_attention.output': 'self-attention',
      'self_attention_norm.residual': '+ x',
      'self_attention_norm.output': 'norm',
      'recurrence.output': 'recurrence',
      'recurrence_norm.residual': '+ x',
      'recurrence_norm.output': 'norm',
      'cross_attention.output': 'cross-attention',
      'cross_attention_norm.residual': '+ x',
      'cross_attention_norm.output': 'norm',
      'feed_forward.hidden': 'h',
      'feed_forward.output': 'feed-forward',
      'feed_forward_norm.residual': '+ x',
      'feed_forward_norm.output': 'norm',
    } as Record<string, string>,
  },
  onlyAfter: 'This screen has no difference to show. Below is B, after the changes.',

  screen: { sentence, tokens, attention, sublayers, decoding, softmax, memory, whatif, beam, pronoun },

  save: {
    title: 'Save',
    picture: 'A figure of this screen',
    which: 'Figure',
    colours: 'Colours',
    light: 'light',
    dark: 'dark',
    numbers: 'The numbers of this screen',
    noNumbers: 'This screen has no numbers to save.',
    noPicture: 'There is no figure of this screen; its numbers can be saved.',
    noServer: 'Figures are drawn by glassformer explore MODEL and glassformer figure MODEL.',
    story: 'The story page',
    storyHint: 'One page to read: every figure, with an explanation.',
    all: 'The whole explorer',
    allHint: 'One file with this sentence and all its numbers, which opens in any browser.',
    caption: 'A caption',
    copy: 'Copy',
    copied: 'Copied.',
    notCopied: 'The browser did not allow copying: select the text and copy it yourself.',
    making: 'Preparing the file …',
    saved: (name: string) => `Saved as ${name}.`,
  },

  keyList: [
    ['N, P', 'next and previous step'],
    ['Tab', 'next control'],
    ['← → ↑ ↓', 'in a grid of weights or heads: another cell; in tabs: another tab'],
    ['Home, End', 'first and last column; with Ctrl first and last cell'],
    ['Page Up, Page Down', 'one layer up or down'],
    ['[ and ]', 'previous and next head'],
    ['Enter', 'show the computation of a cell; in the search tree: follow that hypothesis'],
    ['Space', 'in the search tree: show what was dropped there'],
    ['S', 'save this screen, its numbers, or everything'],
    ['?', 'this list'],
  ] as [string, string][],
};

/** Example sentences, by model: those that the built-in model was trained for. */
export const EXAMPLES: Record<string, string[]> = {
  street: [
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
    'The dog was tired.',
    'The street was wide.',
  ],
};
