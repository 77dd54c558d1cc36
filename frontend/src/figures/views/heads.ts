// Every head's own matrices: Q, K and V of each; or its Z, with how much it brings.
import { RowLabels, rowPitch } from '../labels';
import { ABOVE, BELOW, commonScale, drawMatrix } from '../matrix';
import type { Drawing, Sheet } from '../sheet';
import { tag } from '../svg';
import { text } from '../text';
import type { Role } from '../theme';
import type { AttentionData, Matrix, Token } from '../types';
import { capitalised, decimal, placeName, plural, remarksOn } from '../words';

interface Kind {
  letter: string;
  role: Role;
  matrices: Matrix[];
  tokens: Token[];
  /** The row that is looked at. */
  marked: number | null;
}

export function heads(data: AttentionData, sheet: Sheet): Drawing {
  for (const remark of remarksOn(data)) sheet.note(remark);
  const marked = data.place.kind === 'self' ? data.token : null; // else keys are of another sentence
  const kinds: Kind[] = [
    { letter: 'Q', role: 'q', matrices: data.q as Matrix[], tokens: data.queries, marked: data.token },
    { letter: 'K', role: 'k', matrices: data.k as Matrix[], tokens: data.keys, marked },
    { letter: 'V', role: 'v', matrices: data.v as Matrix[], tokens: data.keys, marked },
  ];
  const each = `${data.q?.[0]?.cols ?? 0} columns`;
  const cross = data.place.kind === 'cross' ? ' K and V have a row for every source token.' : '';
  return {
    title: `${capitalised(placeName(data.place))}: Q, K and V of ${plural(data.heads, 'head')}`,
    description: [`${plural(data.heads, 'head')} of ${each}, each with its own part of W_Q, W_K and W_V.${cross}`],
    ...grid(kinds, sheet),
  };
}

export function headsOut(data: AttentionData, sheet: Sheet): Drawing {
  for (const remark of remarksOn(data)) sheet.note(remark);
  const matrices = data.context as Matrix[];
  const contexts: Kind = { letter: 'Z', role: 'z', matrices, tokens: data.queries, marked: data.token };
  const share = data.share ?? [];
  const total = share.reduce((sum, one) => sum + one, 0);
  const order = share.map((_, head) => head).sort((a, b) => (share[b] as number) - (share[a] as number) || a - b);
  const named = order.slice(0, 3).map((head) => `head ${head} ${percent(share[head] as number, total)}`);
  return {
    title: `${capitalised(placeName(data.place))}: Z of ${plural(data.heads, 'head')}`,
    description: [
      `Each head's Z = softmax(Q Kᵀ${data.scaled ? ' / √K' : ''}) V.`,
      `Bars: how long a head's part of the output is (Z × its rows of W_O), mean over positions: ${named.join(', ')}.`,
    ],
    ...grid([contexts], sheet, share),
  };
}

function percent(part: number, whole: number): string {
  return `${whole > 0 ? Math.round((100 * part) / whole) : 0} %`;
}

/** One column a head and one line a kind; heads that do not fit beside each other go into the next block. */
function grid(kinds: Kind[], sheet: Sheet, share: number[] = []): { body: string; height: number } {
  const labels = kinds.map((one) => new RowLabels(sheet, one.tokens, sheet.narrow ? 30 : 50));
  const left = Math.max(...labels.map((one) => one.width));
  const count = kinds[0]?.matrices.length ?? 0;
  const columns = kinds[0]?.matrices[0]?.cols ?? 1;
  const room = sheet.width - left;
  const gap = sheet.narrow ? 7 : 12;
  const least = 40; // room for "16 × 32" above each
  const most = Math.min(count, Math.max(1, Math.floor((room + gap) / (least + gap))), 8);
  const across = Math.ceil(count / Math.ceil(count / most)); // blocks of one size
  const width = Math.min((room - (across - 1) * gap) / across, Math.max(least, columns * 3.2), 130);
  const lines = kinds.length * Math.ceil(count / across);
  const full = Math.min(170, Math.max(48, 640 / lines - 45)); // all of it on one page
  let body = '';
  let y = 0;
  for (let first = 0; first < count; first += across) {
    kinds.forEach((one, line) => {
      const pitch = rowPitch(one.tokens.length, full);
      const height = pitch * one.tokens.length;
      const top = y + ABOVE;
      const scale = commonScale(sheet, one.matrices, width, height);
      const own = labels[line] as RowLabels;
      body += own.draw(left, top, pitch, one.marked);
      body += own.heading(left, top, pitch);
      for (let head = first; head < Math.min(first + across, count); head++) {
        const box = { x: left + (head - first) * (width + gap), y: top, width, height };
        const style = { role: one.role, kind: 'activation' as const, label: `${one.letter}_{${head}}`, scale };
        body += drawMatrix(sheet, one.matrices[head] as Matrix, box, style);
        body += share.length > 0 ? bar(sheet, box.x, top + height + BELOW + 2, width, share, head) : '';
      }
      y = top + height + BELOW + (share.length > 0 ? 20 : 0) + 5;
    });
    y += 4;
  }
  return { body, height: y - 9 };
}

/** How much of the whole a head brings, as a bar and a number. */
function bar(sheet: Sheet, x: number, y: number, width: number, share: number[], head: number): string {
  const total = share.reduce((sum, one) => sum + one, 0);
  const largest = Math.max(...share, 1e-9);
  const own = share[head] as number;
  const { theme } = sheet;
  return (
    tag('rect', { x, y, width, height: 5, fill: theme.mat }) +
    tag('rect', { x, y, width: (width * own) / largest, height: 5, fill: theme.roles.z.fill }) +
    text(x + width / 2, y + 14, `${decimal(own)} (${percent(own, total)})`, { fill: theme.quiet, anchor: 'middle' })
  );
}
