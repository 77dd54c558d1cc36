// The whole selection, and it as the address after #: a link is a view.
import { changesFrom, written as inAddress } from './changes';

export type Tab = 'word' | 'matrix' | 'heads' | 'compare';
export const TABS: Tab[] = ['word', 'matrix', 'heads', 'compare'];

/** Before the changes, after them, or what is different. */
export type Shown = 'a' | 'b' | 'b-a';
export const SHOWN: Shown[] = ['a', 'b', 'b-a'];

export interface Selection {
  /** The screen. */
  v: string;
  /** An attention by its name; its stack says whose tokens `q` counts. */
  at: string;
  /** Head, from 0. */
  h: number;
  /** Query position, from 0. */
  q: number;
  /** Key position whose arithmetic is open. */
  k: number | null;
  tab: Tab;
  /** The sub-layer that is looked at: "feed_forward"; empty for the whole layer. */
  part: string;
  /** A neuron, or a token of the vocabulary, whose arithmetic is open. */
  n: number | null;
  /** The sentence, its search, and its translation where that is given. */
  s: string;
  b: number;
  t: string;
  /** What-ifs, as JSON in the server's own form; empty where there are none. */
  w: string;
  /** What is shown where there are any. */
  ab: Shown;
  /** A reference that both translations are compared with. */
  r: string;
  /** Which hypothesis of the search is followed, the best is 0; what the translation is made to begin with, "12.7". */
  y: number;
  f: string;
  /** A node of the search's tree; the length penalty that its ends are ranked by, in hundredths. */
  node: number | null;
  a: number | null;
  /** Who is it: the word, its candidates "animal,street", another word in the second sentence "tired=wide". */
  who: string;
  c: string;
  i: string;
}

export const START: Selection = {
  v: 'sentence',
  at: '',
  h: 0,
  q: 0,
  k: null,
  tab: 'word',
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
  who: '',
  c: '',
  i: '',
};

/** What belongs to one sentence only. */
export const ANEW: Partial<Selection> = { y: 0, f: '', node: null, who: '', c: '', i: '' };

const TEXTS = ['v', 'at', 'part', 's', 't', 'r', 'f', 'who', 'c', 'i'] as const;
const NUMBERS = ['h', 'q', 'b', 'y'] as const;

/** Only what differs from the start is written, in one order, so that a view has one address. */
export function toHash(selection: Selection): string {
  const written = new URLSearchParams();
  for (const key of Object.keys(START) as (keyof Selection)[]) {
    const value = selection[key];
    if (value !== null && (value !== START[key] || key === 'v')) written.set(key, String(value));
  }
  return `#${written.toString()}`;
}

/** What cannot be read is as at the start: an address may be anybody's. */
export function fromHash(hash: string): Selection {
  const read = new URLSearchParams(hash.replace(/^#/, ''));
  const found = { ...START };
  for (const key of TEXTS) found[key] = read.get(key) ?? START[key];
  for (const key of NUMBERS) found[key] = whole(read.get(key)) ?? START[key];
  for (const key of ['k', 'n', 'node', 'a'] as const) found[key] = whole(read.get(key));
  const tab = read.get('tab') as Tab;
  found.tab = TABS.includes(tab) ? tab : START.tab;
  found.w = inAddress(changesFrom(read.get('w') ?? ''));
  const shown = read.get('ab') as Shown;
  found.ab = SHOWN.includes(shown) ? shown : START.ab;
  return found;
}

/** The ids that a translation is made to begin with; none where that cannot be read. */
export function forcedIds(selection: Pick<Selection, 'f'>): number[] {
  return /^\d{1,9}(\.\d{1,9})*$/.test(selection.f) ? selection.f.split('.').map(Number) : [];
}

function whole(text: string | null): number | null {
  return text !== null && /^\d{1,6}$/.test(text) ? Number(text) : null;
}
