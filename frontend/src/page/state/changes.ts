// What-ifs as the address has them, in the server's own form. An address may be anybody's: what cannot be read is dropped.

export type Matrix = 'q' | 'k' | 'v';

export type Change =
  | { kind: 'remove-head' | 'average-head'; at: string; head: number }
  | { kind: 'cut-edge'; at: string; query: number; key: number; head?: number }
  | { kind: 'uniform-attention'; at: string; head?: number }
  | { kind: 'skip-feed-forward'; at: string }
  | { kind: 'replace-matrices'; at: string; by: string; which?: Matrix[] }
  | { kind: 'replace-word'; old: string; new: string; which?: number }
  | { kind: 'replace-token'; position: number; count?: number; ids: number[] }
  | { kind: 'begin-with'; text: string }
  | { kind: 'force-prefix'; ids: number[] };

export type Kind = Change['kind'];

/** What the server lets stand together, unless it is told otherwise. */
const MOST = 64;
const LONGEST = 500;

type Read = (value: unknown) => boolean;
const place: Read = (value) => Number.isInteger(value) && (value as number) >= 0 && (value as number) < 1e6;
const name: Read = (value) =>
  typeof value === 'string' && /^(encoder|decoder)\.layers\.\d{1,4}(\.[a-z_]{1,30})?$/.test(value);
const text: Read = (value) =>
  typeof value === 'string' && value.trim() !== '' && value.length <= LONGEST && !value.includes('\0');
const ids: Read = (value) => Array.isArray(value) && value.length > 0 && value.length <= LONGEST && value.every(place);
const matrices: Read = (value) =>
  Array.isArray(value) &&
  value.length > 0 &&
  value.length <= 3 &&
  value.every((one) => ['q', 'k', 'v'].includes(one as string));

/** The fields of each kind; those with ? may be left out. */
const FIELDS: Record<Kind, Record<string, Read>> = {
  'remove-head': { at: name, head: place },
  'average-head': { at: name, head: place },
  'cut-edge': { at: name, query: place, key: place, 'head?': place },
  'uniform-attention': { at: name, 'head?': place },
  'skip-feed-forward': { at: name },
  'replace-matrices': { at: name, by: name, 'which?': matrices },
  'replace-word': { old: text, new: text, 'which?': place },
  'replace-token': { position: place, 'count?': place, ids },
  'begin-with': { text },
  'force-prefix': { ids },
};

/** The changes that a text from an address says; none where it says none. */
export function changesFrom(written: string): Change[] {
  let found: unknown;
  try {
    found = JSON.parse(written);
  } catch {
    return [];
  }
  if (!Array.isArray(found)) return [];
  return found
    .map(read)
    .filter((one) => one !== null)
    .slice(0, MOST);
}

function read(value: unknown): Change | null {
  if (typeof value !== 'object' || value === null) return null;
  const table = value as Record<string, unknown>;
  const kind = table['kind'];
  if (typeof kind !== 'string' || !Object.hasOwn(FIELDS, kind)) return null;
  const kept: Record<string, unknown> = { kind };
  for (const [field, holds] of Object.entries(FIELDS[kind as Kind])) {
    const own = field.replace('?', '');
    const given = Object.hasOwn(table, own) ? table[own] : undefined;
    if (given === undefined || given === null) {
      if (own === field) return null;
    } else if (holds(given)) kept[own] = given;
    else return null;
  }
  return kept as Change;
}

/** As an address has them: no changes, no text. */
export function written(changes: Change[]): string {
  return changes.length === 0 ? '' : JSON.stringify(changes);
}

export function sameChange(one: Change, other: Change): boolean {
  return JSON.stringify(read(one)) === JSON.stringify(read(other));
}

/** One more, at the end; the same one twice says nothing new. */
export function added(changes: Change[], change: Change): Change[] {
  return [...changes.filter((one) => !sameChange(one, change)), change];
}

/** Those that still make sense with another sentence. */
export function unplaced(changes: Change[]): Change[] {
  return changes.filter(
    ({ kind }) => !['cut-edge', 'replace-word', 'replace-token', 'begin-with', 'force-prefix'].includes(kind),
  );
}

/** Which change takes a head away, if one does. */
export function removalOf(changes: Change[], at: string, head: number): Change | null {
  return (
    changes.find(
      (one) => (one.kind === 'remove-head' || one.kind === 'average-head') && one.at === at && one.head === head,
    ) ?? null
  );
}
