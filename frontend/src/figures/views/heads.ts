// Views `heads` and `heads-out`: Q, K and V of every head; Z of every head, and its contribution to the output.
import type { Canvas, Drawing } from '../canvas';
import { attentionName, attentionNotes, capitalised, decimal, plural } from '../formatting';
import { RowLabels, rowPitch } from '../labels';
import { commonScale, drawMatrix, SPACE_ABOVE, SPACE_BELOW } from '../matrix';
import { tag } from '../svg';
import { text } from '../text';
import type { Role } from '../theme';
import type { AttentionData, Matrix, Token } from '../types';

/** One matrix per head, with the same labels. */
interface MatrixRow {
  letter: string;
  role: Role;
  matrices: Matrix[];
  tokens: Token[];
  /** The highlighted row. */
  marked: number | null;
}

export function heads(data: AttentionData, canvas: Canvas): Drawing {
  for (const note of attentionNotes(data)) canvas.note(note);
  const marked = data.place.kind === 'self' ? data.token : null; // in cross-attention the keys belong to the source
  const rows: MatrixRow[] = [
    { letter: 'Q', role: 'q', matrices: data.q as Matrix[], tokens: data.queries, marked: data.token },
    { letter: 'K', role: 'k', matrices: data.k as Matrix[], tokens: data.keys, marked },
    { letter: 'V', role: 'v', matrices: data.v as Matrix[], tokens: data.keys, marked },
  ];
  const columns = data.q?.[0]?.cols ?? 0;
  const cross = data.place.kind === 'cross' ? ' K and V have one row per source token.' : '';
  return {
    title: `${capitalised(attentionName(data.place))}: Q, K and V of ${plural(data.heads, 'head')}`,
    description: [
      `${plural(data.heads, 'head')} with ${columns} columns each; every head has its own part of W_Q, W_K and W_V.${cross}`,
    ],
    ...grid(rows, canvas),
  };
}

export function headsOut(data: AttentionData, canvas: Canvas): Drawing {
  for (const note of attentionNotes(data)) canvas.note(note);
  const matrices = data.context as Matrix[];
  const contexts: MatrixRow = { letter: 'Z', role: 'z', matrices, tokens: data.queries, marked: data.token };
  const share = data.share ?? [];
  const total = share.reduce((sum, one) => sum + one, 0);
  const order = share.map((_, head) => head).sort((a, b) => (share[b] as number) - (share[a] as number) || a - b);
  const named = order.slice(0, 3).map((head) => `head ${head} ${percent(share[head] as number, total)}`);
  return {
    title: `${capitalised(attentionName(data.place))}: Z of ${plural(data.heads, 'head')}`,
    description: [
      `For each head, Z = softmax(Q Kᵀ${data.scaled ? ' / √K' : ''}) V.`,
      `Bars: norm of the head's part of the output (Z × its rows of W_O), mean over positions: ${named.join(', ')}.`,
    ],
    ...grid([contexts], canvas, share),
  };
}

function percent(part: number, whole: number): string {
  return `${whole > 0 ? Math.round((100 * part) / whole) : 0} %`;
}

/** One column per head, one line per matrix row; heads that do not fit next to each other go into the next block. */
function grid(rows: MatrixRow[], canvas: Canvas, share: number[] = []): { body: string; height: number } {
  const labels = rows.map((row) => new RowLabels(canvas, row.tokens, canvas.narrow ? 30 : 50));
  const left = Math.max(...labels.map((one) => one.width));
  const count = rows[0]?.matrices.length ?? 0;
  const columns = rows[0]?.matrices[0]?.cols ?? 1;
  const room = canvas.width - left;
  const gap = canvas.narrow ? 7 : 12;
  const minWidth = 40; // space for "16 × 32" above each
  const fitting = Math.min(count, Math.max(1, Math.floor((room + gap) / (minWidth + gap))), 8);
  const across = Math.ceil(count / Math.ceil(count / fitting)); // blocks of equal size
  const width = Math.min((room - (across - 1) * gap) / across, Math.max(minWidth, columns * 3.2), 130);
  const lines = rows.length * Math.ceil(count / across);
  const maxHeight = Math.min(170, Math.max(48, 640 / lines - 45)); // everything on one page
  let body = '';
  let y = 0;
  for (let first = 0; first < count; first += across) {
    rows.forEach((row, line) => {
      const pitch = rowPitch(row.tokens.length, maxHeight);
      const height = pitch * row.tokens.length;
      const top = y + SPACE_ABOVE;
      const scale = commonScale(canvas, row.matrices, width, height);
      const rowLabels = labels[line] as RowLabels;
      body += rowLabels.draw(left, top, pitch, row.marked);
      body += rowLabels.heading(left, top, pitch);
      for (let head = first; head < Math.min(first + across, count); head++) {
        const box = { x: left + (head - first) * (width + gap), y: top, width, height };
        const style = { role: row.role, kind: 'activation' as const, label: `${row.letter}_{${head}}`, scale };
        body += drawMatrix(canvas, row.matrices[head] as Matrix, box, style);
        body += share.length > 0 ? shareBar(canvas, box.x, top + height + SPACE_BELOW + 2, width, share, head) : '';
      }
      y = top + height + SPACE_BELOW + (share.length > 0 ? 20 : 0) + 5;
    });
    y += 4;
  }
  return { body, height: y - 9 };
}

/** A head's share of the output, as a bar and a number. */
function shareBar(canvas: Canvas, x: number, y: number, width: number, share: number[], head: number): string {
  const total = share.reduce((sum, one) => sum + one, 0);
  const largest = Math.max(...share, 1e-9);
  const norm = share[head] as number;
  const { theme } = canvas;
  return (
    tag('rect', { x, y, width, height: 5, fill: theme.mat }) +
    tag('rect', { x, y, width: (width * norm) / largest, height: 5, fill: theme.roles.z.fill }) +
    text(x + width / 2, y + 14, `${decimal(norm)} (${percent(norm, total)})`, { fill: theme.quiet, anchor: 'middle' })
  );
}
