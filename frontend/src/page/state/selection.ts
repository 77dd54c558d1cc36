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
}

export const START: Selection = {
  v: 'sentence', at: '', h: 0, q: 0, k: null, tab: 'word', part: '', n: null, s: '', b: 4, t: '', w: '', ab: 'b', r: '',
};

const TEXTS = ['v', 'at', 'part', 's', 't', 'r'] as const;
const NUMBERS = ['h', 'q', 'b'] as const;

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
  found.k = whole(read.get('k'));
  found.n = whole(read.get('n'));
  const tab = read.get('tab') as Tab;
  found.tab = TABS.includes(tab) ? tab : START.tab;
  found.w = inAddress(changesFrom(read.get('w') ?? ''));
  const shown = read.get('ab') as Shown;
  found.ab = SHOWN.includes(shown) ? shown : START.ab;
  return found;
}

function whole(text: string | null): number | null {
  return text !== null && /^\d{1,6}$/.test(text) ? Number(text) : null;
}
