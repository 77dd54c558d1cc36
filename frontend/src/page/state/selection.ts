// The selection, and its form in the URL after #: a link opens the same screen with the same selection.
import { parseChanges, serialiseChanges } from './changes';

export type Tab = 'token' | 'matrix' | 'heads' | 'compare';
export const TABS: Tab[] = ['token', 'matrix', 'heads', 'compare'];

/** Before the changes, after them, or the difference. */
export type Shown = 'a' | 'b' | 'b-a';
export const SHOWN: Shown[] = ['a', 'b', 'b-a'];

export interface Selection {
  /** The screen. */
  v: string;
  /** An attention by its name; its stack determines the side that `q` refers to. */
  at: string;
  /** Head, from 0. */
  h: number;
  /** Query position, from 0. */
  q: number;
  /** Key position whose computation is shown. */
  k: number | null;
  tab: Tab;
  /** A sub-layer, such as "feed_forward"; empty for the whole layer. */
  part: string;
  /** A neuron, or a token of the vocabulary, whose computation is shown. */
  n: number | null;
  /** The sentence, the beam size, and the translation if it is given. */
  s: string;
  b: number;
  t: string;
  /** What-if changes, as JSON in the server's format; empty without changes. */
  w: string;
  /** What is shown if there are changes. */
  ab: Shown;
  /** A reference translation for chrF. */
  r: string;
  /** The finished hypothesis that is shown, 0 is the best; the ids of a forced prefix, "12.7". */
  y: number;
  f: string;
  /** A node of the search tree; the length penalty for ranking finished hypotheses, in hundredths. */
  node: number | null;
  a: number | null;
  /** Pronoun resolution: the word, its candidates "animal,street", the swapped word of the second sentence "tired=wide". */
  pronoun: string;
  c: string;
  i: string;
}

export const DEFAULTS: Selection = {
  v: 'sentence',
  at: '',
  h: 0,
  q: 0,
  k: null,
  tab: 'token',
  part: '',
  n: null,
  s: '',
  b: 4,
  t: '',
  w: '',
  ab: 'b',
  r: '',
  y: 0,
  f: '',
  node: null,
  a: null,
  pronoun: '',
  c: '',
  i: '',
};

/** Defaults of the keys that belong to one sentence. */
export const SENTENCE_DEFAULTS: Partial<Selection> = { y: 0, f: '', node: null, pronoun: '', c: '', i: '' };

const TEXTS = ['v', 'at', 'part', 's', 't', 'r', 'f', 'pronoun', 'c', 'i'] as const;
const NUMBERS = ['h', 'q', 'b', 'y'] as const;

/** Contains only what differs from the defaults, in a fixed order, so that a selection has one URL. */
export function toHash(selection: Selection): string {
  const hash = new URLSearchParams();
  for (const key of Object.keys(DEFAULTS) as (keyof Selection)[]) {
    const value = selection[key];
    if (value !== null && (value !== DEFAULTS[key] || key === 'v')) hash.set(key, String(value));
  }
  return `#${hash.toString()}`;
}

/** URLs are untrusted: invalid values become the defaults. */
export function fromHash(hash: string): Selection {
  const values = new URLSearchParams(hash.replace(/^#/, ''));
  const selection = { ...DEFAULTS };
  for (const key of TEXTS) selection[key] = values.get(key) ?? DEFAULTS[key];
  for (const key of NUMBERS) selection[key] = index(values.get(key)) ?? DEFAULTS[key];
  for (const key of ['k', 'n', 'node', 'a'] as const) selection[key] = index(values.get(key));
  const tab = values.get('tab') as Tab;
  selection.tab = TABS.includes(tab) ? tab : DEFAULTS.tab;
  selection.w = serialiseChanges(parseChanges(values.get('w') ?? ''));
  const shown = values.get('ab') as Shown;
  selection.ab = SHOWN.includes(shown) ? shown : DEFAULTS.ab;
  return selection;
}

/** The ids of the forced prefix; none if invalid. */
export function forcedIds(selection: Pick<Selection, 'f'>): number[] {
  return /^\d{1,9}(\.\d{1,9})*$/.test(selection.f) ? selection.f.split('.').map(Number) : [];
}

function index(text: string | null): number | null {
  return text !== null && /^\d{1,6}$/.test(text) ? Number(text) : null;
}
