// What-if changes in the URL, in the server's format. URLs are untrusted: invalid changes are dropped.

export type Matrix = 'q' | 'k' | 'v';

export type Change =
  | { kind: 'remove-head' | 'average-head'; at: string; head: number }
  | { kind: 'remove-edge'; at: string; query: number; key: number; head?: number }
  | { kind: 'uniform-attention'; at: string; head?: number }
  | { kind: 'skip-feed-forward'; at: string }
  | { kind: 'replace-matrices'; at: string; by: string; which?: Matrix[] }
  | { kind: 'replace-word'; old: string; new: string; which?: number }
  | { kind: 'replace-token'; position: number; count?: number; ids: number[] }
  | { kind: 'begin-with'; text: string }
  | { kind: 'force-prefix'; ids: number[] };

export type Kind = Change['kind'];

/** The server's default limit. */
const MAX_CHANGES = 64;
const MAX_LENGTH = 500;

type Check = (value: unknown) => boolean;
const index: Check = (value) => Number.isInteger(value) && (value as number) >= 0 && (value as number) < 1e6;
const name: Check = (value) =>
  typeof value === 'string' && /^(encoder|decoder)\.layers\.\d{1,4}(\.[a-z_]{1,30})?$/.test(value);
const text: Check = (value) =>
  typeof value === 'string' && value.trim() !== '' && value.length <= MAX_LENGTH && !value.includes('\0');
const ids: Check = (value) =>
  Array.isArray(value) && value.length > 0 && value.length <= MAX_LENGTH && value.every(index);
const matrices: Check = (value) =>
  Array.isArray(value) &&
  value.length > 0 &&
  value.length <= 3 &&
  value.every((one) => ['q', 'k', 'v'].includes(one as string));

/** The fields of each kind; those with ? are optional. */
const FIELDS: Record<Kind, Record<string, Check>> = {
  'remove-head': { at: name, head: index },
  'average-head': { at: name, head: index },
  'remove-edge': { at: name, query: index, key: index, 'head?': index },
  'uniform-attention': { at: name, 'head?': index },
  'skip-feed-forward': { at: name },
  'replace-matrices': { at: name, by: name, 'which?': matrices },
  'replace-word': { old: text, new: text, 'which?': index },
  'replace-token': { position: index, 'count?': index, ids },
  'begin-with': { text },
  'force-prefix': { ids },
};

/** The valid changes of a text from the URL. */
export function parseChanges(serialised: string): Change[] {
  let changes: unknown;
  try {
    changes = JSON.parse(serialised);
  } catch {
    return [];
  }
  if (!Array.isArray(changes)) return [];
  return changes
    .map(parseChange)
    .filter((one) => one !== null)
    .slice(0, MAX_CHANGES);
}

function parseChange(value: unknown): Change | null {
  if (typeof value !== 'object' || value === null) return null;
  const table = value as Record<string, unknown>;
  const kind = table['kind'];
  if (typeof kind !== 'string' || !Object.hasOwn(FIELDS, kind)) return null;
  const change: Record<string, unknown> = { kind };
  for (const [field, check] of Object.entries(FIELDS[kind as Kind])) {
    const key = field.replace('?', '');
    const entry = Object.hasOwn(table, key) ? table[key] : undefined;
    if (entry === undefined || entry === null) {
      if (key === field) return null;
    } else if (check(entry)) change[key] = entry;
    else return null;
  }
  return change as Change;
}

/** The text for the URL; empty without changes. */
export function serialiseChanges(changes: Change[]): string {
  return changes.length === 0 ? '' : JSON.stringify(changes);
}

export function sameChange(one: Change, other: Change): boolean {
  return JSON.stringify(parseChange(one)) === JSON.stringify(parseChange(other));
}

/** The changes with one more at the end; a duplicate is moved there. */
export function withChange(changes: Change[], change: Change): Change[] {
  return [...changes.filter((one) => !sameChange(one, change)), change];
}

/** The changes that do not refer to words or positions of the sentence. */
export function withoutPositional(changes: Change[]): Change[] {
  return changes.filter(
    ({ kind }) => !['remove-edge', 'replace-word', 'replace-token', 'begin-with', 'force-prefix'].includes(kind),
  );
}

/** The change that removes or averages a head, if there is one. */
export function headRemoval(changes: Change[], at: string, head: number): Change | null {
  return (
    changes.find(
      (one) => (one.kind === 'remove-head' || one.kind === 'average-head') && one.at === at && one.head === head,
    ) ?? null
  );
}
