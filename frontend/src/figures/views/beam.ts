// The tree of a search, time to the right: what was gone on with, what was dropped, what ended, and the best of them.
import type { Drawing, Sheet } from '../sheet';
import { number, tag } from '../svg';
import { cut, isolated, shown, SIZE, text } from '../text';
import type { BeamData, BeamNode } from '../types';
import { measure } from '../widths';
import { decimal, plural, probability } from '../words';

const ROW = 15;
const BOX = 11;
const LEAST = 17;
/** A dropped token is named where it was at least so likely; the others are counted. */
const NAMED = 0.05;

/** A run of tokens without a branch: one box. */
export interface Run {
  nodes: number[];
  /** Depth of its first and last token, counted from 1. */
  from: number;
  to: number;
  parent: Run | null;
  row: number;
  best: boolean;
}

export function beam(data: BeamData, sheet: Sheet): Drawing {
  const runs = layout(data);
  const grown = data.nodes.filter(
    (one) => one.fate !== 'outranked' && one.fate !== 'displaced' && one.fate !== 'start',
  );
  const dropped = data.nodes.length - 1 - grown.length;
  const { theme } = sheet;
  sheet.keys.push(
    { meaning: 'best', look: { fill: theme.ground, stroke: theme.accent, 'stroke-width': 1.8 } },
    { meaning: 'kept', look: { fill: theme.ground, stroke: theme.quiet, 'stroke-width': 0.8 } },
    {
      meaning: 'still growing at the end',
      look: { fill: theme.ground, stroke: theme.quiet, 'stroke-width': 0.8, 'stroke-dasharray': '2 1.5' },
    },
  );
  sheet.note('A double frame has ended, with its rank and score; grey words were dropped, with their probability.');
  sheet.note(`Dropped tokens of ${NAMED} and more are named, the others counted (+n).`);
  return {
    title: `Beam search of width ${data.size}`,
    description: sentences(data, grown.length, dropped),
    ...bands(data, runs, sheet),
  };
}

function sentences(data: BeamData, grown: number, dropped: number): string[] {
  const best = data.ended[0];
  const all = plural(data.nodes.length - 1, 'hypothesis', 'hypotheses');
  const told = `${all} looked at: ${grown} gone on with or ended, ${dropped} dropped.`;
  if (best === undefined) return [told];

  const second = data.ended[1];
  const margin = second === undefined ? '' : `; the second has ${decimal((data.nodes[second] as BeamNode).score)}`;
  return [
    told,
    `The best of ${data.ended.length} that ended, with score ${decimal((data.nodes[best] as BeamNode).score)}${margin}:`,
    `${firstWords(wordsOf(data, pathOf(data, best)))}.`,
  ];
}

/** So many that a caption can hold them. */
function firstWords(words: string): string {
  const parts = words.split(' ');
  return parts.length <= 40 ? words : `${parts.slice(0, 40).join(' ')} …`;
}

function pathOf(data: BeamData, node: number): number[] {
  const way: number[] = [];
  for (let at = node; at > 0; at = (data.nodes[at] as BeamNode).parent) way.push(at);
  return way.reverse();
}

export function isGrown(node: BeamNode): boolean {
  return node.fate === 'kept' || node.fate === 'ended' || node.fate === 'abandoned';
}

/** Runs with their rows: a first child goes straight on, the others below; the best path comes first. */
export function layout(data: BeamData, drawn: (node: BeamNode, number: number) => boolean = isGrown): Run[] {
  const children: number[][] = data.nodes.map(() => []);
  data.nodes.forEach((node, number) => {
    if (node.parent >= 0 && drawn(node, number)) (children[node.parent] as number[]).push(number);
  });
  const best = new Set(data.ended[0] === undefined ? [] : pathOf(data, data.ended[0]));
  const depth: number[] = [];
  data.nodes.forEach((node, number) => depth.push(number === 0 ? 0 : (depth[node.parent] as number) + 1));
  for (const list of children) list.sort((a, b) => Number(best.has(b)) - Number(best.has(a)) || a - b);

  const runs: Run[] = [];
  let rows = 0;
  // A stack instead of recursion: a long target would make a deep one.
  const waiting: { node: number; parent: Run | null; row: number | null }[] = [];
  const first = children[0] ?? [];
  for (const node of [...first].reverse()) waiting.push({ node, parent: null, row: null });
  while (waiting.length > 0) {
    const { node, parent, row } = waiting.pop() as { node: number; parent: Run | null; row: number | null };
    const nodes = [node];
    let last = node;
    while (
      (children[last] as number[]).length === 1 &&
      best.has((children[last] as number[])[0] as number) === best.has(node) &&
      isGrown(data.nodes[(children[last] as number[])[0] as number] as BeamNode)
    ) {
      last = (children[last] as number[])[0] as number;
      nodes.push(last);
    }
    const own = row ?? rows++;
    const run: Run = {
      nodes,
      from: depth[node] as number,
      to: depth[last] as number,
      parent,
      row: own,
      best: best.has(node),
    };
    runs.push(run);
    const next = children[last] as number[];
    for (let i = next.length - 1; i >= 0; i--)
      waiting.push({ node: next[i] as number, parent: run, row: i === 0 ? own : null });
  }
  return runs;
}

/** Where each step begins and how wide it is; a band holds as many steps as fit. */
interface Band {
  start: number;
  end: number;
  x: number[];
  width: number[];
}

const LEFT = 22;

/** The room that each step needs: first for boxes of one token, then for the longer ones of the best path. */
function needs(data: BeamData, runs: Run[], deepest: number): number[] {
  const widths = Array.from({ length: deepest + 1 }, () => LEAST);
  const asked = runs.filter((run) => run.nodes.length <= 2 || run.best).sort((a, b) => a.nodes.length - b.nodes.length);
  for (const run of asked) {
    const wanted = Math.min(measure(wordsOf(data, run.nodes), SIZE, run.best) + 11, 70 * run.nodes.length);
    const there = widths.slice(run.from, run.to + 1).reduce((sum, one) => sum + one, 0);
    const more = Math.max(0, wanted - there) / run.nodes.length;
    for (let at = run.from; at <= run.to; at++) widths[at] = (widths[at] as number) + more;
  }
  return widths;
}

function wordsOf(data: BeamData, nodes: number[]): string {
  return nodes.map((node) => isolated(shown((data.nodes[node] as BeamNode).text))).join(' ');
}

/** Bands end where a run of the best path does, if one ends there at all. */
function bandsOf(widths: number[], runs: Run[], room: number): Band[] {
  const ends = new Set(runs.filter((run) => run.best).map((run) => run.to));
  const total = widths.slice(1).reduce((a, b) => a + b, 0);
  if (total > room && total <= room * 1.15)
    return bandsOf(
      widths.map((one) => (one * room) / total - 1e-6),
      runs,
      room,
    );
  const found: Band[] = [];
  let start = 1;
  while (start < widths.length) {
    let end = start;
    let sum = widths[start] as number;
    while (end + 1 < widths.length && sum + (widths[end + 1] as number) <= room) sum += widths[++end] as number;
    const whole = Array.from({ length: end - start }, (_, back) => end - back).find((at) => ends.has(at));
    if (end + 1 < widths.length && whole !== undefined) end = whole;
    sum = widths.slice(start, end + 1).reduce((a, b) => a + b, 0);
    // The last of several bands keeps its steps as narrow as they are.
    const spare = end + 1 === widths.length && found.length > 0 ? 0 : (room - sum) / (end - start + 1);
    const width = widths.slice(start, end + 1).map((one) => one + Math.max(0, spare));
    const x = width.map((_, place) => LEFT + width.slice(0, place).reduce((a, b) => a + b, 0));
    found.push({ start, end, x, width });
    start = end + 1;
  }
  return found;
}

/** So many steps beside each other as leave a token its room; the later ones in bands below. */
function bands(data: BeamData, runs: Run[], sheet: Sheet): { body: string; height: number } {
  const deepest = Math.max(1, ...runs.map((run) => run.to));
  const right = 46;
  let y = 0;
  let body = '';
  for (const band of bandsOf(needs(data, runs, deepest), runs, sheet.width - LEFT - right)) {
    const inside = runs.filter((run) => run.to >= band.start && run.from <= band.end);
    const rows = [...new Set(inside.map((run) => run.row))].sort((a, b) => a - b);
    const places = new Map(rows.map((row, place) => [row, place]));
    y += 12;
    band.x.forEach((x, place) => {
      const middle = x + (band.width[place] as number) / 2;
      body += text(middle, y - 3, String(band.start + place - 1), { fill: sheet.theme.quiet, anchor: 'middle' });
    });
    if (band.start === 1)
      body += text(0, y + 10.5, cut(shown((data.nodes[0] as BeamNode).text), LEFT - 4), { fill: sheet.theme.quiet });
    const lineOf = (row: number): number | undefined => {
      const place = places.get(row);
      return place === undefined ? undefined : y + place * ROW + ROW / 2;
    };
    body += inside.map((run) => edge(run, band, lineOf, sheet)).join('');
    body += inside.map((run) => box(data, run, band, lineOf(run.row) as number, sheet)).join('');
    y += rows.length * ROW + 8;
  }
  return { body, height: y - 8 };
}

/** From the end of the run before down to this one; a stub where that stands in the band above. */
function edge(run: Run, band: Band, lineOf: (row: number) => number | undefined, sheet: Sheet): string {
  const look = {
    fill: 'none',
    stroke: run.best ? sheet.theme.accent : sheet.theme.quiet,
    'stroke-width': run.best ? 2 : 0.8,
  };
  const line = number(lineOf(run.row) as number);
  const x = band.x[Math.max(run.from, band.start) - band.start] as number;
  const from = run.parent === null ? lineOf(0) : lineOf(run.parent.row);
  if (run.from < band.start || from === undefined) {
    return tag('path', { ...look, d: `M${number(x - 9)} ${line}H${number(x + 2)}`, 'stroke-dasharray': '2 2' });
  }
  return tag('path', { ...look, d: `M${number(x - 3)} ${number(from)}V${line}H${number(x + 2)}` });
}

function box(data: BeamData, run: Run, band: Band, line: number, sheet: Sheet): string {
  const { theme } = sheet;
  const [from, to] = [Math.max(run.from, band.start), Math.min(run.to, band.end)];
  const nodes = run.nodes.slice(from - run.from, to - run.from + 1);
  const x = (band.x[from - band.start] as number) + 2;
  const width = (band.x[to - band.start] as number) + (band.width[to - band.start] as number) - 5 - x;
  const last = data.nodes[nodes[nodes.length - 1] as number] as BeamNode;
  const stays = to === run.to;
  const stroke = run.best ? theme.accent : theme.quiet;
  const frame = { x, y: line - BOX / 2, width, height: BOX, rx: 2.5, fill: theme.ground, stroke };
  const dashed = stays && last.fate === 'abandoned' ? '2 1.5' : undefined;
  let body = tag('rect', { ...frame, 'stroke-width': run.best ? 1.4 : 0.7, 'stroke-dasharray': dashed });
  if (stays && last.fate === 'ended') {
    const inner = { x: x + 1.6, y: frame.y + 1.6, width: width - 3.2, height: BOX - 3.2, rx: 1.5 };
    body += tag('rect', { ...inner, fill: 'none', stroke, 'stroke-width': 0.5 });
  }
  const words = wordsOf(data, nodes);
  const fill = run.best ? theme.accent : theme.text;
  body += text(x + width / 2, line + 2.9, cut(words, width - 3, SIZE, run.best), {
    fill,
    bold: run.best,
    anchor: 'middle',
  });
  return stays ? body + beside(data, run, last, x + width + 4, line, sheet) : body;
}

/** What stands behind a run: its rank and score where it ended, what was dropped where it did not. */
function beside(data: BeamData, run: Run, last: BeamNode, x: number, line: number, sheet: Sheet): string {
  const room = Math.min(150, sheet.width - x);
  const node = run.nodes[run.nodes.length - 1] as number;
  const fill = run.best ? sheet.theme.accent : sheet.theme.quiet;
  if (last.fate === 'ended') {
    const rank = data.ended.indexOf(node) + 1;
    const label = `${ordinal(rank)} ${decimal(last.score).replace('-', '−')}`;
    return text(x, line + 2.9, label, { fill, bold: run.best, halo: sheet.theme.ground });
  }
  const branches = data.nodes.some((other) => other.parent === node && isGrown(other));
  if (branches) return '';
  const dropped = data.nodes.filter((other) => other.parent === node && !isGrown(other));
  if (last.fate === 'abandoned') return text(x, line + 2.9, cut('growing', room), { fill, halo: sheet.theme.ground });
  const named = dropped.filter((other) => other.probability >= NAMED);
  const shownNames = named
    .slice(0, 2)
    .map((other) => `${isolated(shown(other.text))} ${probability(other.probability)}`);
  const rest = dropped.length - shownNames.length;
  const parts = [...shownNames, ...(rest > 0 ? [`+${rest}`] : [])];
  return text(x, line + 2.9, cut(parts.join(', '), room), { fill: sheet.theme.quiet, halo: sheet.theme.ground });
}

export function ordinal(rank: number): string {
  const ends: Record<number, string> = { 1: 'st', 2: 'nd', 3: 'rd' };
  const teen = rank % 100 > 10 && rank % 100 < 14;
  return `${rank}${teen ? 'th' : (ends[rank % 10] ?? 'th')}`;
}
