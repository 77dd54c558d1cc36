// View `beam`: the search tree, steps from left to right, with kept, finished and dropped hypotheses and the best path.
import type { Canvas, Drawing } from '../canvas';
import { decimal, plural, probability } from '../formatting';
import { number, tag } from '../svg';
import { FONT_SIZE, isolated, text, tokenText, truncate } from '../text';
import { textWidth } from '../textWidth';
import type { BeamData, BeamNode } from '../types';

const ROW_HEIGHT = 15;
const BOX_HEIGHT = 11;
const MIN_STEP_WIDTH = 17;
const LEFT_MARGIN = 22;
const MAX_CAPTION_WORDS = 40;
/** Dropped tokens with at least this probability are named; the others are counted. */
const MIN_NAMED_PROBABILITY = 0.05;

/** A run of tokens without a branch, drawn as one box. */
export interface Run {
  nodes: number[];
  /** Depth of its first and last token, counted from 1. */
  from: number;
  to: number;
  parent: Run | null;
  row: number;
  best: boolean;
}

export function beam(data: BeamData, canvas: Canvas): Drawing {
  const runs = layout(data);
  const retained = data.nodes.filter(isRetained).length;
  const dropped = data.nodes.length - 1 - retained;
  const { theme } = canvas;
  canvas.legendItems.push(
    { meaning: 'best', style: { fill: theme.ground, stroke: theme.accent, 'stroke-width': 1.8 } },
    { meaning: 'kept', style: { fill: theme.ground, stroke: theme.quiet, 'stroke-width': 0.8 } },
    {
      meaning: 'unfinished at the end',
      style: { fill: theme.ground, stroke: theme.quiet, 'stroke-width': 0.8, 'stroke-dasharray': '2 1.5' },
    },
  );
  canvas.note('Double frame: finished, with rank and score.');
  canvas.note(`Grey text: dropped tokens with their probability; below ${MIN_NAMED_PROBABILITY} only counted (+n).`);
  return {
    title: `Beam search with beam size ${data.size}`,
    description: sentences(data, retained, dropped),
    ...drawBands(data, runs, canvas),
  };
}

function sentences(data: BeamData, retained: number, dropped: number): string[] {
  const best = data.finished[0];
  const all = plural(data.nodes.length - 1, 'hypothesis', 'hypotheses');
  const counts = `${all} considered: ${retained} kept or finished, ${dropped} dropped.`;
  if (best === undefined) return [counts];

  const second = data.finished[1];
  const runnerUp = second === undefined ? '' : ` (second: ${decimal((data.nodes[second] as BeamNode).score)})`;
  return [
    counts,
    `Best of ${plural(data.finished.length, 'finished hypothesis', 'finished hypotheses')},`,
    `with score ${decimal((data.nodes[best] as BeamNode).score)}${runnerUp}:`,
    `${firstWords(textOf(data, pathOf(data, best)))}.`,
  ];
}

/** At most MAX_CAPTION_WORDS words. */
function firstWords(words: string): string {
  const parts = words.split(' ');
  return parts.length <= MAX_CAPTION_WORDS ? words : `${parts.slice(0, MAX_CAPTION_WORDS).join(' ')} …`;
}

/** The nodes from the first token to this one. */
function pathOf(data: BeamData, node: number): number[] {
  const path: number[] = [];
  for (let at = node; at > 0; at = (data.nodes[at] as BeamNode).parent) path.push(at);
  return path.reverse();
}

/** Whether a hypothesis was not dropped: it was extended, finished, or unfinished when the search ended. */
export function isRetained(node: BeamNode): boolean {
  return node.fate === 'kept' || node.fate === 'finished' || node.fate === 'abandoned';
}

/** Runs with their rows: the first child stays in its parent's row, the others go below; the best path comes first. */
export function layout(data: BeamData, drawn: (node: BeamNode, number: number) => boolean = isRetained): Run[] {
  const children: number[][] = data.nodes.map(() => []);
  data.nodes.forEach((node, number) => {
    if (node.parent >= 0 && drawn(node, number)) (children[node.parent] as number[]).push(number);
  });
  const best = new Set(data.finished[0] === undefined ? [] : pathOf(data, data.finished[0]));
  const depth: number[] = [];
  data.nodes.forEach((node, number) => depth.push(number === 0 ? 0 : (depth[node.parent] as number) + 1));
  for (const list of children) list.sort((a, b) => Number(best.has(b)) - Number(best.has(a)) || a - b);

  const runs: Run[] = [];
  let rows = 0;
  // A stack instead of recursion, which would be deep for a long target.
  const stack: { node: number; parent: Run | null; row: number | null }[] = [];
  const first = children[0] ?? [];
  for (const node of [...first].reverse()) stack.push({ node, parent: null, row: null });
  while (stack.length > 0) {
    const { node, parent, row } = stack.pop() as { node: number; parent: Run | null; row: number | null };
    const nodes = [node];
    let last = node;
    while (
      (children[last] as number[]).length === 1 &&
      best.has((children[last] as number[])[0] as number) === best.has(node) &&
      isRetained(data.nodes[(children[last] as number[])[0] as number] as BeamNode)
    ) {
      last = (children[last] as number[])[0] as number;
      nodes.push(last);
    }
    const runRow = row ?? rows++;
    const run: Run = {
      nodes,
      from: depth[node] as number,
      to: depth[last] as number,
      parent,
      row: runRow,
      best: best.has(node),
    };
    runs.push(run);
    const next = children[last] as number[];
    for (let i = next.length - 1; i >= 0; i--)
      stack.push({ node: next[i] as number, parent: run, row: i === 0 ? runRow : null });
  }
  return runs;
}

/** A line of the drawing with as many steps as fit: the left edge and width of each step. */
interface Band {
  start: number;
  end: number;
  x: number[];
  width: number[];
}

/** Width of each step: first for boxes of up to two tokens, then for the longer ones of the best path. */
function stepWidths(data: BeamData, runs: Run[], deepest: number): number[] {
  const widths = Array.from({ length: deepest + 1 }, () => MIN_STEP_WIDTH);
  const sized = runs.filter((run) => run.nodes.length <= 2 || run.best).sort((a, b) => a.nodes.length - b.nodes.length);
  for (const run of sized) {
    const needed = Math.min(textWidth(textOf(data, run.nodes), FONT_SIZE, run.best) + 11, 70 * run.nodes.length);
    const available = widths.slice(run.from, run.to + 1).reduce((sum, one) => sum + one, 0);
    const more = Math.max(0, needed - available) / run.nodes.length;
    for (let at = run.from; at <= run.to; at++) widths[at] = (widths[at] as number) + more;
  }
  return widths;
}

function textOf(data: BeamData, nodes: number[]): string {
  return nodes.map((node) => isolated(tokenText((data.nodes[node] as BeamNode).text))).join(' ');
}

/** Splits the steps into bands; a band ends where a run of the best path ends, if possible. */
function splitIntoBands(widths: number[], runs: Run[], room: number): Band[] {
  const ends = new Set(runs.filter((run) => run.best).map((run) => run.to));
  const total = widths.slice(1).reduce((a, b) => a + b, 0);
  if (total > room && total <= room * 1.15)
    return splitIntoBands(
      widths.map((one) => (one * room) / total - 1e-6),
      runs,
      room,
    );
  const bands: Band[] = [];
  let start = 1;
  while (start < widths.length) {
    let end = start;
    let sum = widths[start] as number;
    while (end + 1 < widths.length && sum + (widths[end + 1] as number) <= room) sum += widths[++end] as number;
    const lastRunEnd = Array.from({ length: end - start }, (_, back) => end - back).find((at) => ends.has(at));
    if (end + 1 < widths.length && lastRunEnd !== undefined) end = lastRunEnd;
    sum = widths.slice(start, end + 1).reduce((a, b) => a + b, 0);
    // The steps of the last of several bands are not widened.
    const spare = end + 1 === widths.length && bands.length > 0 ? 0 : (room - sum) / (end - start + 1);
    const width = widths.slice(start, end + 1).map((one) => one + Math.max(0, spare));
    const x = width.map((_, place) => LEFT_MARGIN + width.slice(0, place).reduce((a, b) => a + b, 0));
    bands.push({ start, end, x, width });
    start = end + 1;
  }
  return bands;
}

/** As many steps next to each other as fit; later ones in bands below. */
function drawBands(data: BeamData, runs: Run[], canvas: Canvas): { body: string; height: number } {
  const deepest = Math.max(1, ...runs.map((run) => run.to));
  const right = 46;
  let y = 0;
  let body = '';
  for (const band of splitIntoBands(stepWidths(data, runs, deepest), runs, canvas.width - LEFT_MARGIN - right)) {
    const inside = runs.filter((run) => run.to >= band.start && run.from <= band.end);
    const rows = [...new Set(inside.map((run) => run.row))].sort((a, b) => a - b);
    const places = new Map(rows.map((row, place) => [row, place]));
    y += 12;
    band.x.forEach((x, place) => {
      const middle = x + (band.width[place] as number) / 2;
      body += text(middle, y - 3, String(band.start + place - 1), { fill: canvas.theme.quiet, anchor: 'middle' });
    });
    if (band.start === 1)
      body += text(0, y + 10.5, truncate(tokenText((data.nodes[0] as BeamNode).text), LEFT_MARGIN - 4), {
        fill: canvas.theme.quiet,
      });
    const rowCentre = (row: number): number | undefined => {
      const place = places.get(row);
      return place === undefined ? undefined : y + place * ROW_HEIGHT + ROW_HEIGHT / 2;
    };
    body += inside.map((run) => edge(run, band, rowCentre, canvas)).join('');
    body += inside.map((run) => box(data, run, band, rowCentre(run.row) as number, canvas)).join('');
    y += rows.length * ROW_HEIGHT + 8;
  }
  return { body, height: y - 8 };
}

/** The edge from the parent run down to this one; a stub if the parent is in the band above. */
function edge(run: Run, band: Band, rowCentre: (row: number) => number | undefined, canvas: Canvas): string {
  const style = {
    fill: 'none',
    stroke: run.best ? canvas.theme.accent : canvas.theme.quiet,
    'stroke-width': run.best ? 2 : 0.8,
  };
  const line = number(rowCentre(run.row) as number);
  const x = band.x[Math.max(run.from, band.start) - band.start] as number;
  const from = run.parent === null ? rowCentre(0) : rowCentre(run.parent.row);
  if (run.from < band.start || from === undefined) {
    return tag('path', { ...style, d: `M${number(x - 9)} ${line}H${number(x + 2)}`, 'stroke-dasharray': '2 2' });
  }
  return tag('path', { ...style, d: `M${number(x - 3)} ${number(from)}V${line}H${number(x + 2)}` });
}

function box(data: BeamData, run: Run, band: Band, line: number, canvas: Canvas): string {
  const { theme } = canvas;
  const [from, to] = [Math.max(run.from, band.start), Math.min(run.to, band.end)];
  const nodes = run.nodes.slice(from - run.from, to - run.from + 1);
  const x = (band.x[from - band.start] as number) + 2;
  const width = (band.x[to - band.start] as number) + (band.width[to - band.start] as number) - 5 - x;
  const last = data.nodes[nodes[nodes.length - 1] as number] as BeamNode;
  const complete = to === run.to;
  const stroke = run.best ? theme.accent : theme.quiet;
  const frame = { x, y: line - BOX_HEIGHT / 2, width, height: BOX_HEIGHT, rx: 2.5, fill: theme.ground, stroke };
  const dashed = complete && last.fate === 'abandoned' ? '2 1.5' : undefined;
  let body = tag('rect', { ...frame, 'stroke-width': run.best ? 1.4 : 0.7, 'stroke-dasharray': dashed });
  if (complete && last.fate === 'finished') {
    const inner = { x: x + 1.6, y: frame.y + 1.6, width: width - 3.2, height: BOX_HEIGHT - 3.2, rx: 1.5 };
    body += tag('rect', { ...inner, fill: 'none', stroke, 'stroke-width': 0.5 });
  }
  const label = textOf(data, nodes);
  const fill = run.best ? theme.accent : theme.text;
  body += text(x + width / 2, line + 2.9, truncate(label, width - 3, FONT_SIZE, run.best), {
    fill,
    bold: run.best,
    anchor: 'middle',
  });
  return complete ? body + annotation(data, run, last, x + width + 4, line, canvas) : body;
}

/** Text after a run: rank and score if it is finished, else the tokens that were dropped there. */
function annotation(data: BeamData, run: Run, last: BeamNode, x: number, line: number, canvas: Canvas): string {
  const room = Math.min(150, canvas.width - x);
  const node = run.nodes[run.nodes.length - 1] as number;
  const fill = run.best ? canvas.theme.accent : canvas.theme.quiet;
  if (last.fate === 'finished') {
    const rank = data.finished.indexOf(node) + 1;
    const label = `${ordinal(rank)} ${decimal(last.score).replace('-', '−')}`;
    return text(x, line + 2.9, label, { fill, bold: run.best, halo: canvas.theme.ground });
  }
  const branches = data.nodes.some((other) => other.parent === node && isRetained(other));
  if (branches) return '';
  const dropped = data.nodes.filter((other) => other.parent === node && !isRetained(other));
  if (last.fate === 'abandoned')
    return text(x, line + 2.9, truncate('unfinished', room), { fill, halo: canvas.theme.ground });
  const named = dropped.filter((other) => other.probability >= MIN_NAMED_PROBABILITY);
  const shownNames = named
    .slice(0, 2)
    .map((other) => `${isolated(tokenText(other.text))} ${probability(other.probability)}`);
  const rest = dropped.length - shownNames.length;
  const parts = [...shownNames, ...(rest > 0 ? [`+${rest}`] : [])];
  return text(x, line + 2.9, truncate(parts.join(', '), room), { fill: canvas.theme.quiet, halo: canvas.theme.ground });
}

export function ordinal(rank: number): string {
  const suffixes: Record<number, string> = { 1: 'st', 2: 'nd', 3: 'rd' };
  const teen = rank % 100 > 10 && rank % 100 < 14;
  return `${rank}${teen ? 'th' : (suffixes[rank % 10] ?? 'th')}`;
}
